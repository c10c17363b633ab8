"""The table for the impatient: for each task, the defaults, or a better or clearly cheaper setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from attnx.reports.significant_digits import p_text
from attnx.reports.stats.multiple_comparisons import MeanDifference
from attnx.reports.sweep.comparison import Comparison
from attnx.reports.sweep.settings import chosen_values
from studies.atlas.changes import changes_of, default_reference, find_baseline
from studies.atlas.design import Task
from studies.atlas.figures import CostPoint, cost_points

MIN_SAVING = 2.0  # times the CPU time; that of equal runs differs by up to so much
DEFAULTS = "the defaults"
HEAD = ("your data are", "take", "it reaches", "without attention", "CPU time", "how sure")


class Advice(NamedTuple):
    """What to take for some data, as text: what to type, its quality, that of the baseline, its cost, and how sure."""

    data: str
    words: str
    quality: str
    baseline: str
    cost: str
    certainty: str


def advise(comparison: Comparison, tasks: Mapping[str, Task]) -> Advice | None:
    """The advice of a task's comparison: the defaults where nothing is tested.

    None if no run has its CPU time, or if the task is confirmed.
    """
    task = tasks[comparison.constant["task"]]
    if task.is_confirmed:
        return None
    main, points = comparison.rankings[0], {point.name: point for point in cost_points(comparison)}
    is_tested = main.has_seeds
    equals = [main.rows[0], *main.undecided] if is_tested else main.rows
    candidates = [point for row in equals if (point := points.get(row.setting.name))]
    if not candidates:
        return None
    default = next((point for point in candidates if _words(task, comparison, point.name) == DEFAULTS), None)
    choice = default or candidates[0]  # the best
    if is_tested:
        cheaper = (point for point in candidates if choice.cpu_seconds > MIN_SAVING * point.cpu_seconds)
        choice = next(cheaper, choice)
    baseline = find_baseline(comparison)
    return Advice(
        data=f"{task.data}: `{task.name}`",
        words=_words(task, comparison, choice.name),
        quality=f"{main.metric.label} {main.metric.format(choice.mean)}",
        baseline="" if baseline is None else main.metric.format(baseline.mean),
        cost=_cost(choice, None if baseline is None else points.get(baseline.setting.name)),
        certainty=_certainty(len(equals), len(main.rows), _baseline_difference(task, comparison), is_tested=is_tested),
    )


def _words(task: Task, comparison: Comparison, name: str) -> str:
    """What one types for a setting beside attnx's defaults."""
    setting = next(setting for setting in comparison.settings if setting.name == name)
    choices, default = chosen_values(comparison.keys, setting), default_reference(task, comparison)
    words = [f"`{key}={value}`" for key, value in choices.items() if value != default.get(key)]
    return " ".join(words) or DEFAULTS


def _cost(point: CostPoint, baseline: CostPoint | None) -> str:
    seconds = f"{point.cpu_seconds:.0f} s"
    if baseline is None:
        return seconds
    return f"{seconds}, {point.cpu_seconds / baseline.cpu_seconds:.1f} times that without"


def _baseline_difference(task: Task, comparison: Comparison) -> MeanDifference | None:
    """The difference of the setting without attention from the defaults."""
    baseline = find_baseline(comparison)
    changes = changes_of(task, comparison).by_words.values()
    return next(
        (change.difference for change in changes if baseline and change.row.setting_index == baseline.setting_index),
        None,
    )


def _certainty(equal: int, settings: int, baseline: MeanDifference | None, *, is_tested: bool) -> str:
    if not is_tested:
        return "one seed each: not tested"
    text = f"{equal} of {settings} settings cannot be told from the best" if equal > 1 else "the only best setting"
    return text if baseline is None else f"{text}; no attention against the defaults: {p_text(baseline.p)}"
