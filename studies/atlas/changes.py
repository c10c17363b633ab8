"""Single changes of the defaults: what each setting of a task that changes one choice differs in, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from attnx.reports.stats.multiple_comparisons import MeanDifference
from attnx.reports.sweep.ablations import Reference, differences_from
from attnx.reports.sweep.comparison import Comparison
from attnx.reports.sweep.metrics import Metric
from attnx.reports.sweep.ranking import RankedSetting
from attnx.reports.sweep.settings import chosen_values
from attnx.reports.sweep.texts import has_no_attention
from studies.atlas.design import Task
from studies.job import Setting
from studies.results import RATE, setting_choices


class Change(NamedTuple):
    """A setting that changes the default, and its difference from it; above zero is worse.

    The difference is adjusted for all changes of the task, and None if it cannot be tested.
    """

    row: RankedSetting
    difference: MeanDifference | None


class Changes(NamedTuple):
    """The default of a task, and its changes that were trained, by what one types for them, such as ``scorer=dot``.

    ``metric`` is the task's main one, that of all values.
    """

    default: RankedSetting
    by_words: dict[str, Change]
    metric: Metric


def single_changes(compared: Sequence[Comparison], tasks: Mapping[str, Task]) -> dict[str, Changes]:
    """The single changes of each task that was compared, by the task's name, in the order of the design."""
    return {name: changes_of(tasks[name], comparison) for name, comparison in by_task(compared, tasks).items()}


def by_task(compared: Sequence[Comparison], tasks: Mapping[str, Task]) -> dict[str, Comparison]:
    """The comparison of each task that was compared, in the order of the design."""
    comparisons = {comparison.constant["task"]: comparison for comparison in compared}
    return {name: comparisons[name] for name in tasks if name in comparisons}


def changes_of(task: Task, comparison: Comparison) -> Changes:
    """The single changes of a task by its main metric."""
    main, rows = comparison.rankings[0], rows_by_choices(comparison)
    default = rows[frozenset(default_reference(task, comparison).items())]
    rows_by_words = {
        " ".join(word for word in setting if word not in task.default): rows[choices]
        for setting in task.changes
        if (choices := frozenset(choices_of(task, setting, comparison).items())) in rows
    }
    # A change of what has not been varied yet looks like the default.
    rows_by_words = {words: row for words, row in rows_by_words.items() if row.setting_index != default.setting_index}
    differences = differences_from(default, [*rows_by_words.values()], main.scale)
    changed = zip(rows_by_words.items(), differences, strict=True)
    by_words = {words: Change(row, difference) for (words, row), difference in changed}
    return Changes(default, by_words, main.metric)


def find_baseline(comparison: Comparison) -> RankedSetting | None:
    """The setting without attention."""
    return next((row for row in comparison.rankings[0].rows if has_no_attention(comparison, row.setting_index)), None)


def rows_by_choices(comparison: Comparison) -> dict[frozenset[tuple[str, str]], RankedSetting]:
    """The rows of the main ranking by the choices that they make."""
    return {frozenset(chosen_values(comparison.keys, row.setting).items()): row for row in comparison.rankings[0].rows}


def default_reference(task: Task, comparison: Comparison) -> Reference:
    """The default of a task as the reference of ablations."""
    return choices_of(task, task.default, comparison)


def choices_of(task: Task, setting: Setting, comparison: Comparison) -> dict[str, str]:
    """A setting's choices among those in which settings were compared, with the learning rate of the task."""
    choices = {key: value for key, value in setting_choices(setting).items() if key in comparison.keys}
    if RATE in comparison.keys and RATE not in choices:
        column = comparison.keys.index(RATE)
        further = {setting_choices(setting)[RATE] for setting in task.rates}
        choices[RATE] = next(
            compared.values[column] for compared in comparison.settings if compared.values[column] not in further
        )
    return choices
