"""Single changes of the defaults, of all tasks side by side."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from attnx.config.view import key_part
from attnx.reports.stats.multiple_comparisons import SIGNIFICANCE_LEVEL
from studies.atlas.changes import Change, Changes

CHANGE_HEAD = ("change", "mean", "difference", "95 % interval", "p")


def overview(changes: Mapping[str, Changes]) -> list[list[str]]:
    """A row for each change, by choice, the best first: the change of each task's metric in percent of the default's.

    Above zero is worse, whether higher or lower values are better; bold is significant. A default of 0 has no cells.
    """
    words = list(dict.fromkeys(words for result in changes.values() for words in result.by_words))
    percents = {
        name: {key: _percent(change, result) for key, change in result.by_words.items() if result.default.mean}
        for name, result in changes.items()
    }
    means = {key: fmean([row[key] for row in percents.values() if key in row] or [0.0]) for key in words}
    parts = list(dict.fromkeys(_part(key) for key in words))
    order = sorted(words, key=lambda key: (parts.index(_part(key)), means[key]))
    return [
        [f"`{key}`", *(_cell(result.by_words.get(key), percents[name].get(key)) for name, result in changes.items())]
        for key in order
    ]


def change_rows(result: Changes) -> list[list[str]]:
    """The rows of a table with :data:`CHANGE_HEAD`: each change of a task with its difference from the default."""
    return [
        [f"`{words}`", result.metric.format(change.row.mean), *result.metric.difference_cells(change.difference)]
        for words, change in result.by_words.items()
    ]


def _part(words: str) -> str:
    return key_part(words.partition("=")[0])


def _percent(change: Change, result: Changes) -> float:
    """By how much the mean is worse than the default's."""
    difference = change.row.mean - result.default.mean
    return 100 * (-difference if result.metric.is_higher_better else difference) / result.default.mean


def _cell(change: Change | None, percent: float | None) -> str:
    if change is None or percent is None:
        return ""
    text = f"{round(percent):+d}\N{NO-BREAK SPACE}%"
    is_significant = change.difference is not None and change.difference.p < SIGNIFICANCE_LEVEL
    return f"**{text}**" if is_significant else text
