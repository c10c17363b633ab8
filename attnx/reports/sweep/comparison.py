"""Parts runs into comparisons, each of one measure on one test, and finds in each what there is to tell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attnx.config.view import value_text
from attnx.files.parse_number import count_of
from attnx.reports.stats.multiple_comparisons import Spread
from attnx.reports.sweep.conclusions import verdict
from attnx.reports.sweep.conditions import unequal_conditions
from attnx.reports.sweep.effects import Effect, Interaction, effects, factors
from attnx.reports.sweep.evaluated_examples import TestedExamples, read_tested
from attnx.reports.sweep.load_runs import DATA, RunRecord
from attnx.reports.sweep.measures import Measure, measures
from attnx.reports.sweep.ranking import RankedSetting, ranked, supported_digits
from attnx.reports.sweep.settings import Setting, settings, varied
from attnx.runs.status import RunStatus


class MetricComparison(NamedTuple):
    """Settings by one measure.

    Attributes:
        measure: which.
        rows: the settings, best first.
        spread: of them over seeds.
        verdict: in words; what the runs were not alike in comes first.
        effects: what each choice does.
        interactions: which choices depend on each other.
    """

    measure: Measure
    rows: list[RankedSetting]
    spread: Spread
    verdict: list[str]
    effects: list[Effect]
    interactions: list[Interaction]


class Comparison(NamedTuple):
    """Runs on the same test data.

    Attributes:
        title: the data, in a few words.
        keys: the choices in which the runs differ.
        constant: what they have in common, flat.
        settings: what was compared.
        judged: by each measure, the main one first.
        again: runs that count no more, since a later one has the same setting and seed.
    """

    title: str
    keys: list[str]
    constant: dict[str, str]
    settings: list[Setting]
    judged: list[MetricComparison]
    again: int


def comparisons(found: Sequence[RunRecord]) -> list[Comparison]:
    """All comparisons of finished runs, the largest first."""
    runs = [run for run in found if run.status == RunStatus.FINISHED]
    tests = {run.path: test for run in runs if (test := read_tested(run.path)) is not None}
    apart: dict[tuple[Any, ...], list[RunRecord]] = {}
    for run in runs:
        apart.setdefault((run.monitor, run.maximize, _data(run, tests)), []).append(run)
    return [_comparison(held, tests) for held in sorted(apart.values(), key=len, reverse=True)]


def _data(run: RunRecord, tests: dict[Path, TestedExamples]) -> Any:
    """What a run was tested on: its examples, or, where they were not kept, what it was asked."""
    if run.path in tests:
        return tests[run.path].key
    task = {key: value for key, value in run.choices.items() if key.partition(".")[0] == "task"}
    return (repr(task), run.results.get("test_examples"))


def _comparison(runs: Sequence[RunRecord], tests: dict[Path, TestedExamples]) -> Comparison:
    chosen = [run.choices for run in runs]
    keys = varied(chosen)
    compared = settings(runs, keys)
    kept = [run for setting in compared for run in setting.runs]
    common = {
        key: value_text(value) for key, value in chosen[0].items() if all(_same(one, key, value) for one in chosen)
    }
    constant = {key: value for key, value in common.items() if key != DATA}
    known = measures(kept, runs[0].monitor, runs[0].maximize)
    split = factors(keys, compared)
    unequal = unequal_conditions(kept, known[0] if known else None)
    judged = []
    for one in known:
        rows, spread = ranked(compared, one, tests)
        measure = one._replace(digits=supported_digits(rows, one.digits))
        main, pairs = effects(split, rows, spread, measure.more) if rows else ([], [])
        words = [*unequal, *verdict(compared, rows, spread, measure)]
        judged.append(MetricComparison(measure, rows, spread, words, main, pairs))
    return Comparison(_title(runs[0], tests), keys, constant, compared, judged, len(runs) - len(kept))


def _same(choices: dict[str, Any], key: str, value: Any) -> bool:
    return key in choices and value_text(choices[key]) == value_text(value)


def _title(run: RunRecord, tests: dict[Path, TestedExamples]) -> str:
    count = len(tests[run.path].tags) if run.path in tests else int(run.results.get("test_examples", 0))
    file = run.choices.get("task.test")
    task = " ".join(filter(None, [str(run.choices.get("task", "")), value_text(file) if file else ""]))
    return count_of(count, "test example") + (f" of {task}" if task else "")
