"""The planned comparisons of the study: two settings on one task, over seeds, adjusted for all that were planned."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from scipy import stats

from attnx.config.suite_file import Suite
from attnx.errors import UserError, suggest
from attnx.reports.stats.multiple_comparisons import SIGNIFICANCE_LEVEL, adjust_by_holm
from attnx.reports.sweep.metrics import choose_scale, list_metrics
from attnx.reports.sweep.run_record import RunRecord
from attnx.reports.sweep.run_table import SUITE, read_run_table
from attnx.runs.info import RunStatus

EQUAL_WITHIN = 0.05
"""Settings are equal if the whole interval of the ratio of their errors, or of their scores, is nearer to 1."""
BETTER, WORSE, EQUAL, OPEN = "better", "worse", "equal", "open"
LINEAR_MAP, LINEAR_ERROR = "linear map", "test_linear_mse"
"""The forecast without a model that runs of a series have beside theirs, which is compared like a setting."""
ENDED = (RunStatus.FINISHED, RunStatus.FAILED)
Runs = Mapping[tuple[str, str], Sequence[RunRecord]]
"""The counted runs of a setting, by ``SUITE/TASK`` and the setting's name."""


@dataclass(frozen=True)
class Planned:
    """A comparison that was planned.

    Attributes:
        task: ``SUITE/TASK``.
        first: a setting.
        second: the setting that it is compared with.
        expected: what the first is said to be: better, worse or equal.
        source: who says so.
        metric: such as ``test_accuracy_128x32``; by default the main one of the task.
    """

    task: str
    first: str
    second: str
    expected: str
    source: str
    metric: str = ""


@dataclass(frozen=True)
class Compared:
    """What was found.

    Attributes:
        planned: the comparison.
        metric: in words.
        means: of the first and the second.
        ratio: of the first's error to the second's, or one plus the difference of scores by the second's.
        interval: its 95 % interval.
        p: of Welch's test, adjusted by Holm for all planned comparisons that have runs.
    """

    planned: Planned
    metric: str
    means: tuple[float, float]
    ratio: float
    interval: tuple[float, float]
    p: float

    @property
    def found(self) -> str:
        """What the first is: better, worse, equal, or open, where more seeds are needed."""
        if self.p < SIGNIFICANCE_LEVEL:
            return BETTER if self.ratio < 1 else WORSE
        return EQUAL if all(abs(end - 1) < EQUAL_WITHIN for end in self.interval) else OPEN

    @property
    def sentence(self) -> str:
        """What was found beside what was expected, in a line."""
        planned, (first, second), (low, high) = self.planned, self.means, self.interval
        numbers = f"{self.metric} {first:.4g} and {second:.4g}, ratio {self.ratio:.3f} ({low:.3f} to {high:.3f})"
        return (
            f"{planned.task}: {planned.first} against {planned.second}: {self.found}, expected {planned.expected} "
            f"({numbers}, p = {self.p:.2g}; {planned.source})"
        )


def read_planned(path: Path) -> list[Planned]:
    """The planned comparisons of a file."""
    return [Planned(**entry) for entry in yaml.safe_load(path.read_text(encoding="utf-8"))]


def read_runs(tables: Sequence[Path], suites: Sequence[Suite]) -> dict[tuple[str, str], list[RunRecord]]:
    """The counted runs in the tables of suites, of the settings of which all have finished or failed."""
    runs: dict[tuple[str, str], list[RunRecord]] = {}
    for run in (run for table in tables for run in read_run_table(table)):
        suite, task, mechanism = (str(run.choices[f"{SUITE}.{name}"]) for name in ("name", "task", "mechanism"))
        runs.setdefault((f"{suite}/{task}", mechanism), []).append(run)
        if LINEAR_ERROR in run.results:
            linear = replace(run, results={"test_mse": run.results[LINEAR_ERROR]})
            runs.setdefault((f"{suite}/{task}", LINEAR_MAP), []).append(linear)
    seeds = {suite.name: {*suite.counted_seeds} for suite in suites}
    ended = {key: {run.seed for run in group if run.status in ENDED} for key, group in runs.items()}
    return {key: group for key, group in runs.items() if ended[key] >= seeds[key[0].partition("/")[0]]}


def check_names(planned: Sequence[Planned], suites: Sequence[Suite]) -> None:
    """Refuse a comparison that names no task or setting of a suite.

    Raises:
        UserError: a wrong name.
    """
    names = {suite.name: [*suite.baselines, LINEAR_MAP] for suite in suites}
    settings = [
        (f"{suite.name}/{task}", name) for suite in suites for task in suite.tasks for name in names[suite.name]
    ]
    known = [" ".join(setting) for setting in settings]
    for entry in planned:
        for name in (entry.first, entry.second):
            if (entry.task, name) not in settings:
                raise UserError(
                    f"comparisons.yaml: no suite has {entry.task} {name}{suggest(f'{entry.task} {name}', known)}"
                )


def compare(planned: Sequence[Planned], runs: Runs) -> list[Compared]:
    """Compare those whose two settings have two runs or more each, by Welch's t test on the scale of reports.

    A run that failed counts as the worst of its task, since nothing is dropped because it looks bad.
    """
    found = []
    for entry in planned:
        groups = [runs.get((entry.task, name), ()) for name in (entry.first, entry.second)]
        if min(map(len, groups)) > 1:
            task_runs = [run for (task, _), others in runs.items() if task == entry.task for run in others]
            found.append(_compare_pair(entry, groups, task_runs))
    adjusted = adjust_by_holm([compared.p for compared in found])
    return [
        Compared(one.planned, one.metric, one.means, one.ratio, one.interval, p)
        for one, p in zip(found, adjusted, strict=True)
    ]


def _compare_pair(planned: Planned, groups: Sequence[Sequence[RunRecord]], task_runs: Sequence[RunRecord]) -> Compared:
    finished = [run for run in task_runs if run.status == RunStatus.FINISHED]
    metrics = {metric.key: metric for metric in list_metrics(finished)}
    metric = metrics.get(planned.metric or next(iter(metrics)))
    if metric is None:
        raise UserError(f"comparisons.yaml: {planned.task} has no {planned.metric}{suggest(planned.metric, metrics)}")
    measured = [run.results[metric.key] for run in finished]
    worst = min(measured) if metric.is_higher_better else max(measured)
    values = [[run.results.get(metric.key, worst) for run in group] for group in groups]
    scale = choose_scale(metric, measured, max(run.results.get("test_examples", 1.0) for run in finished))
    first, second = (scale.apply(group) for group in values)
    with warnings.catch_warnings():  # a forecast without a model has no variance over seeds
        warnings.filterwarnings("ignore", "Precision loss", RuntimeWarning)
        test = stats.ttest_ind(first, second, equal_var=False)
    gap, ends = float(first.mean() - second.mean()), test.confidence_interval(1 - SIGNIFICANCE_LEVEL)

    def ratio(difference: float) -> float:
        return math.exp(difference) if scale.least is not None else 1 + difference / abs(float(second.mean()))

    p = 1.0 if math.isnan(test.pvalue) else float(test.pvalue)
    means = scale.mean(values[0]), scale.mean(values[1])
    return Compared(planned, metric.label, means, ratio(gap), (ratio(ends.low), ratio(ends.high)), p)
