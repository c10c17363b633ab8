"""Ablations: settings that differ from a reference in one choice alone, and their differences from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from attnx.errors import UserError, suggest
from attnx.files.printable import markdown_table
from attnx.reports.stats.multiple_comparisons import MeanDifference, compare_with_control
from attnx.reports.sweep.comparison import Comparison
from attnx.reports.sweep.effects import factors, has_factors
from attnx.reports.sweep.metrics import Scale
from attnx.reports.sweep.ranking import RankedSetting
from attnx.reports.sweep.settings import ABSENT, chosen_values, override_choice
from attnx.runs.sweep import split_override

ABLATION_HEAD = ("choice", "value", "mean", "difference", "95 % interval", "p")
Reference = Mapping[str, str]
"""Values of choices, by key, as text."""


class Ablation(NamedTuple):
    """A setting that differs from the reference in a factor alone, where it has ``value``.

    ``difference`` is from the reference, adjusted for all ablations of it; above zero is worse. None if unknown.
    """

    factor: str
    value: str
    row: RankedSetting
    difference: MeanDifference | None


def parse_reference(words: Sequence[str]) -> Reference:
    """Read ``scorer=additive query=[token]`` as choices.

    Raises:
        UserError: a word is no ``KEY=VALUE``.
    """
    choices = {}
    for word in words:
        key, value = split_override(word)
        choice = override_choice(key, value)
        if not key or not choice:
            raise UserError(f"--reference {word}: expected KEY=VALUE, as in --reference scorer=additive scope=global")
        choices[key] = choice
    return choices


def ablations(comparison: Comparison, reference: Reference) -> tuple[RankedSetting, list[Ablation]]:
    """The setting that has the values of ``reference``, and its ablations by factor, in each the best first.

    Raises:
        UserError: a key is no choice in which the settings differ, or not exactly one setting has these values.
    """
    start, ranking = _find(comparison, reference), comparison.rankings[0]
    compared, changed = factors(comparison.keys, comparison.settings), list[tuple[str, str, RankedSetting]]()
    for row in ranking.rows:
        first, other = start.setting_index, row.setting_index
        if has_factors(first, compared) and has_factors(other, compared):
            differing = [factor for factor in compared if factor.indices[other] != factor.indices[first]]
            changes = [(factor.name, factor.values[factor.indices[other]]) for factor in differing]
        else:  # one lacks some part, as a baseline does: what it has instead must be one choice
            values = zip(comparison.keys, row.setting.values, start.setting.values, strict=True)
            changes = [(key, value) for key, value, start_value in values if value not in (start_value, ABSENT)]
        changed += [(*changes[0], row)] if len(changes) == 1 else []
    changed.sort(key=lambda entry: entry[0])
    differences = differences_from(start, [row for *_, row in changed], ranking.scale)
    entries = zip(changed, differences, strict=True)
    return start, [Ablation(factor, value, row, gap) for (factor, value, row), gap in entries]


def ablation_section(comparison: Comparison, reference: Reference) -> Iterator[str]:
    """What it costs to change one choice of a reference; nothing if it is not among the settings."""
    main = comparison.rankings[0]
    start, changed = ablations(comparison, reference)
    text = main.metric.format
    yield "### One choice changed"
    yield (
        f"{main.name(start)} has {main.metric.label} {text(start.mean)}. Each row differs from it in one choice. "
        f"A difference above zero is worse; intervals and p are adjusted for all rows."
    )
    rows = [
        [change.factor, change.value, text(change.row.mean), *main.metric.difference_cells(change.difference)]
        for change in changed
    ]
    yield markdown_table(ABLATION_HEAD, rows)


def differences_from(
    start: RankedSetting, changed: Sequence[RankedSetting], scale: Scale
) -> list[MeanDifference | None]:
    """The differences of settings from one that was chosen beforehand, in the units of the metric."""
    groups = [row.on_scale(scale) for row in (start, *changed)]
    gaps = compare_with_control(groups, [scale.least_variance(group[0]) for group in groups])
    return [gap and scale.difference(fmean(groups[0]), gap) for gap in gaps]


def _find(comparison: Comparison, reference: Reference) -> RankedSetting:
    """The setting with the values of the reference, or the one that makes the fewest choices if there are several."""
    keys = comparison.keys
    choices = [(row, chosen_values(keys, row.setting)) for row in comparison.rankings[0].rows]
    for key, value in reference.items():
        if key not in keys:
            raise UserError(f"--reference {key}: the settings do not differ in it{suggest(key, keys)}")
        known = {values[key] for _, values in choices if key in values}
        if value not in known:
            raise UserError(f"--reference {key}={value}: no setting has this value{suggest(value, known)}")
    matches = [(row, values) for row, values in choices if reference.items() <= values.items()]
    fewest = min((len(values) for _, values in matches), default=0)
    rows = [row for row, values in matches if len(values) == fewest]
    if len(rows) != 1:
        words = " ".join(f"{key}={value}" for key, value in reference.items())
        further = [key for key in keys if key not in reference]
        several = f"{len(rows)} settings have these values; name {', '.join(further)}, too"
        raise UserError(f"--reference {words}: {several if rows else 'no setting has all of these'}")
    return rows[0]
