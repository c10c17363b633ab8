"""Groups runs into comparisons, one per test, and ranks settings by each metric."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attnx.config.view import value_text
from attnx.files.parse_number import count_phrase
from attnx.reports.stats.multiple_comparisons import PooledVariance
from attnx.reports.sweep.conclusions import conclude
from attnx.reports.sweep.conditions import unequal_conditions
from attnx.reports.sweep.effects import Effect, Interaction, effects, factors
from attnx.reports.sweep.evaluated_examples import TestedExamples, read_tested
from attnx.reports.sweep.load_runs import DATA, RunRecord
from attnx.reports.sweep.measures import Measure, measures
from attnx.reports.sweep.ranking import RankedSetting, rank_settings, supported_digits
from attnx.reports.sweep.settings import Setting, group_by_setting, varied_keys
from attnx.runs.status import RunStatus


class MetricComparison(NamedTuple):
    """Settings by one metric.

    Attributes:
        measure: the metric.
        rows: the settings, best first.
        pooled: their variance over seeds.
        verdict: sentences; unequal conditions of the runs come first.
        effects: of each choice.
        interactions: of each two choices.
    """

    measure: Measure
    rows: list[RankedSetting]
    pooled: PooledVariance
    verdict: list[str]
    effects: list[Effect]
    interactions: list[Interaction]


class Comparison(NamedTuple):
    """Runs with the same test data.

    Attributes:
        title: the test data.
        keys: the choices in which the runs differ.
        constant: the choices in which they agree, by dotted keys.
        settings: what is compared.
        metrics: the comparison by each metric, the main one first.
        superseded: number of runs left out, since a later one has the same setting and seed.
    """

    title: str
    keys: list[str]
    constant: dict[str, str]
    settings: list[Setting]
    metrics: list[MetricComparison]
    superseded: int


def comparisons(records: Sequence[RunRecord]) -> list[Comparison]:
    """All comparisons of finished runs, the largest first."""
    runs = [run for run in records if run.status == RunStatus.FINISHED]
    tests = {run.path: test for run in runs if (test := read_tested(run.path)) is not None}
    groups: dict[tuple[Any, ...], list[RunRecord]] = {}
    for run in runs:
        groups.setdefault((run.monitor, run.maximize, _test_key(run, tests)), []).append(run)
    return [_compare(group, tests) for group in sorted(groups.values(), key=len, reverse=True)]


def _test_key(run: RunRecord, tests: dict[Path, TestedExamples]) -> Any:
    """What identifies a run's test: its examples, or if they were not saved the task's settings."""
    if run.path in tests:
        return tests[run.path].key
    task = {key: value for key, value in run.choices.items() if key.partition(".")[0] == "task"}
    return (repr(task), run.results.get("test_examples"))


def _compare(runs: Sequence[RunRecord], tests: dict[Path, TestedExamples]) -> Comparison:
    choices = [run.choices for run in runs]
    keys = varied_keys(choices)
    settings = group_by_setting(runs, keys)
    used = [run for setting in settings for run in setting.runs]
    available = measures(used, runs[0].monitor, runs[0].maximize)
    unequal = unequal_conditions(used, available[0] if available else None)
    compared_factors = factors(keys, settings)
    metrics = []
    for measure in available:
        rows, pooled = rank_settings(settings, measure, tests)
        measure = measure._replace(digits=supported_digits(rows, measure.digits))
        main, pairs = effects(compared_factors, rows, pooled, measure.is_higher_better) if rows else ([], [])
        verdict = [*unequal, *conclude(settings, rows, pooled, measure)]
        metrics.append(MetricComparison(measure, rows, pooled, verdict, main, pairs))
    return Comparison(_title(runs[0], tests), keys, _constant(choices), settings, metrics, len(runs) - len(used))


def _constant(choices: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The choices in which all runs agree, as text."""
    first, *following = [{key: value_text(value) for key, value in run.items()} for run in choices]
    return {key: text for key, text in first.items() if key != DATA and all(run.get(key) == text for run in following)}


def _title(run: RunRecord, tests: dict[Path, TestedExamples]) -> str:
    count = len(tests[run.path].tags) if run.path in tests else int(run.results.get("test_examples", 0))
    file = run.choices.get("task.test")
    task = " ".join(filter(None, [str(run.choices.get("task", "")), value_text(file) if file else ""]))
    return count_phrase(count, "test example") + (f" of {task}" if task else "")
