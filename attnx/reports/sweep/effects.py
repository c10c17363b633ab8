"""Main effects of choices and interactions of two choices, from an analysis of variance, and what they show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from attnx.files.parse_number import count_phrase
from attnx.reports.stats.analysis_of_variance import SETTINGS, FTest, LevelMean, analyze
from attnx.reports.stats.multiple_comparisons import SEEDS, SIGNIFICANCE_LEVEL, MeanDifference
from attnx.reports.sweep.caveats import first_few
from attnx.reports.sweep.conclusions import p_text
from attnx.reports.sweep.factors import Factor, has_factors, repeated_settings, restrict
from attnx.reports.sweep.ranking import Ranking
from attnx.reports.sweep.scale import Scale

ERRORS = {
    SETTINGS: "The error of intervals and tests is the variance of settings about the model of these effects: one is "
    "significant if it holds whatever else is chosen. Each setting counts once, with the mean of its seeds.",
    SEEDS: "The error of intervals and tests is the variance over seeds, since the model of these effects fits all "
    "settings.",
}


class Level(NamedTuple):
    """One value of a choice as text, its mean as in
    :class:`attnx.reports.stats.analysis_of_variance.LevelMean`, and its settings.
    """

    value: str
    mean: float | None
    low: float | None
    high: float | None
    difference: MeanDifference | None
    settings: int


class Effect(NamedTuple):
    """The main effect of a choice, or of choices that always change together: its levels and its F-test."""

    name: str
    levels: list[Level]
    test: FTest | None

    @property
    def range(self) -> float:
        """Between the best and the worst value."""
        means = [level.mean for level in self.levels if level.mean is not None]
        return max(means) - min(means) if means else 0.0


class Interaction(NamedTuple):
    """The interaction of two choices and its F-test."""

    names: tuple[str, str]
    test: FTest


class Effects(NamedTuple):
    """Main effects, the largest first, interactions, the most significant first, and sentences about both."""

    main: list[Effect]
    interactions: list[Interaction]
    summary: list[str]


def effects(compared: Sequence[Factor], ranking: Ranking) -> Effects:
    """The effects of factors on the settings that have all of them, and values that others have, too."""
    usual = [row for row in ranking.rows if has_factors(row.setting, compared)]
    if not usual or not compared:
        return Effects([], [], [])
    repeated = repeated_settings([row.setting for row in usual], compared)
    rows = [row for row in usual if row.setting in repeated]
    compared = restrict(compared, repeated)
    indices = [[factor.indices[row.setting] for row in rows] for factor in compared]
    groups = [ranking.scale.apply([*row.values.values()]).tolist() for row in rows]
    analysis = analyze([*map(np.array, indices)], [len(factor.values) for factor in compared], groups)
    main = []
    for place, (factor, means) in enumerate(zip(compared, analysis.levels, strict=True)):
        counts = [indices[place].count(level) for level in range(len(factor.values))]
        in_units = [_in_units(mean, means, ranking.scale) for mean in means]
        levels = [Level(*entry) for entry in zip(factor.values, *zip(*in_units, strict=True), counts, strict=True)]
        main.append(Effect(factor.name, levels, analysis.tests.get((place,))))
    names = [factor.name for factor in compared]
    pairs = [Interaction((names[t[0]], names[t[1]]), test) for t, test in analysis.tests.items() if len(t) == 2]
    pairs.sort(key=lambda pair: pair.test.p)
    without_part = [ranking.name(row) for row in ranking.rows if row not in usual]
    single = [ranking.name(row) for row in usual if row not in rows]
    summary = [
        *(ERRORS[analysis.error], *_significant(pairs, len(compared))),
        *_left_out(without_part, "want of a part that most settings have"),
        *_left_out(single, "having a value that no other setting has"),
    ]
    return Effects(sorted(main, key=lambda effect: -effect.range), pairs, summary)


def _in_units(level: LevelMean, levels: Sequence[LevelMean], scale: Scale) -> LevelMean:
    """A level's mean and difference in the units of the metric."""
    if level.mean is None:
        return level
    best = min(entry.mean for entry in levels if entry.mean is not None)
    low, high = (None if end is None else scale.invert(end) for end in (level.low, level.high))
    low, high = (high, low) if scale.sign < 0 else (low, high)
    return LevelMean(scale.invert(level.mean), low, high, level.difference and scale.difference(best, level.difference))


def _significant(pairs: Sequence[Interaction], factors: int) -> Iterator[str]:
    """The interactions that remain significant after Holm's correction, and how many could not be tested."""
    correction = f" after Holm's correction for {len(pairs)}" if len(pairs) > 1 else ""
    names = [
        f"{' by '.join(pair.names)} ({p_text(pair.test.adjusted_p)})"
        for pair in pairs
        if pair.test.adjusted_p < SIGNIFICANCE_LEVEL
    ]
    if names:
        yield f"Significant interactions{correction}: {'; '.join(names)}."
    elif pairs:
        yield f"No interaction is significant{correction}."
    if untested := math.comb(factors, 2) - len(pairs):
        yield f"{count_phrase(untested, 'interaction')} of two choices cannot be tested with these settings."


def _left_out(names: Sequence[str], reason: str) -> Iterator[str]:
    if names:
        yield f"Left out of the effects, for {reason}: {first_few(names)}."
