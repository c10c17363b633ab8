"""Single changes of the defaults, of all tasks side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from attnx.reports.stats.multiple_comparisons import SIGNIFICANCE_LEVEL
from attnx.reports.sweep.ablations import Ablation, Ablations, ablations
from attnx.reports.sweep.comparison import Comparison
from studies.atlas.design import Task
from studies.atlas.findings import default_of

Change = tuple[str, str]
"""A choice and its value."""


def single_changes(compared: Sequence[Comparison], tasks: Mapping[str, Task]) -> dict[str, Ablations]:
    """The single changes of the default of each task, by the task's name."""
    by_task = {tasks[comparison.constant["task"]].name: comparison for comparison in compared}
    return {
        name: ablations(
            comparison.keys, comparison.settings, comparison.metrics[0], default_of(tasks[name], comparison)
        )
        for name, comparison in by_task.items()
    }


def overview(changes: Mapping[str, Ablations]) -> list[list[str]]:
    """A row for each change, by choice, the best first: the change of each task's error in percent of the default's.

    Above zero is worse, whether higher or lower values are better; bold is significant.
    """
    rows: dict[Change, dict[str, Ablation]] = {}
    for name, result in changes.items():
        for change in result.changed:
            rows.setdefault((change.factor, change.value), {})[name] = change
    percents = {
        key: {name: _percent(change, changes[name]) for name, change in row.items()} for key, row in rows.items()
    }
    order = sorted(rows, key=lambda key: (key[0], fmean(percents[key].values())))
    return [[*key, *(_cell(rows[key].get(name), percents[key].get(name)) for name in changes)] for key in order]


def _percent(change: Ablation, result: Ablations) -> float:
    """By how much the mean is worse than the default's."""
    difference = change.row.mean - result.reference.mean
    return 100 * (-difference if result.is_higher_better else difference) / result.reference.mean


def _cell(change: Ablation | None, percent: float | None) -> str:
    if change is None or percent is None:
        return ""
    is_significant = change.difference is not None and change.difference.p < SIGNIFICANCE_LEVEL
    return f"**{percent:+.0f} %**" if is_significant else f"{percent:+.0f} %"
