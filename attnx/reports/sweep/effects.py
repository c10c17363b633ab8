"""Main effects of choices and interactions of two choices, from an analysis of variance, and what they show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from attnx.files.parse_number import count_phrase
from attnx.reports.stats.anova import LACK_OF_FIT, RESIDUAL, SEEDS, Analysis, analyze
from attnx.reports.stats.f_tests import FTest
from attnx.reports.stats.multiple_comparisons import SIGNIFICANCE_LEVEL, MeanDifference
from attnx.reports.stats.pooled_variance import within_variance
from attnx.reports.sweep.conclusions import first_few, p_text
from attnx.reports.sweep.factors import Factor, has_factors, repeated_settings, restrict
from attnx.reports.sweep.ranking import RankedSetting, Ranking

ERRORS = {
    SEEDS: "The error of intervals and tests is the variance over seeds.",
    RESIDUAL: "The error of intervals and tests is the residual of the fit, since there is one seed.",
    LACK_OF_FIT: "The settings are a fraction of all combinations, in which interactions overlap, or some of them "
    "share the values of all choices, since numbers are grouped. The error of intervals and tests is therefore the "
    "lack of fit, the variance of settings about the model of main effects and the tested term; each setting counts "
    "once, however many seeds it has. If another interaction is significant, the term is also tested together with it, "
    "and the larger p counts.",
}


class Level(NamedTuple):
    """One value of a choice as text, its mean as in :class:`attnx.reports.stats.anova.LevelMean`, and its settings."""

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
    """The interaction of two choices and its F-test.

    ``values`` are the pair with the largest deviation from the sum of their main effects, ``deviation`` is its mean and
    95 % interval; None if unknown.
    """

    names: tuple[str, str]
    test: FTest
    values: tuple[str, str] | None
    deviation: tuple[float, float, float] | None


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
    # The lack of fit is a variance of settings, so each counts once, however many seeds it has.
    analysis = _analyze(compared, ranking, [(row.setting, [row.mean]) for row in rows])
    if analysis.error != LACK_OF_FIT:
        analysis = _analyze(compared, ranking, [(row.setting, [*row.values.values()]) for row in rows])
    main = _main_effects(compared, rows, analysis)
    pairs = sorted(_interactions(compared, analysis), key=lambda pair: pair.test.p)
    summary = [ERRORS[analysis.error], *_significant(pairs, len(compared))]
    for part, reason in (
        ([row for row in ranking.rows if row not in usual], "want of a part that most settings have"),
        ([row for row in usual if row not in rows], "having a value that no other setting has"),
    ):
        summary += _left_out([ranking.name(row) for row in part], reason)
    return Effects(main, pairs, summary)


def _analyze(compared: Sequence[Factor], ranking: Ranking, groups: Sequence[tuple[int, list[float]]]) -> Analysis:
    """The analysis of settings, by their indices, with their values."""
    values = np.array([value for _, group in groups for value in group])
    indices = [setting for setting, group in groups for _ in group]
    columns = [np.array([factor.indices[index] for index in indices]) for factor in compared]
    sizes = [len(factor.values) for factor in compared]
    pooled = within_variance([group for _, group in groups])
    return analyze(columns, sizes, values, pooled, ranking.metric.is_higher_better)


def _main_effects(compared: Sequence[Factor], rows: Sequence[RankedSetting], analysis: Analysis) -> list[Effect]:
    main = []
    for factor, test, means in zip(compared, analysis.main, analysis.levels, strict=True):
        counts = [sum(factor.indices[row.setting] == level for row in rows) for level in range(len(factor.values))]
        levels = [Level(value, *mean, count) for value, mean, count in zip(factor.values, means, counts, strict=True)]
        main.append(Effect(factor.name, levels, test))
    return sorted(main, key=lambda effect: -effect.range)


def _interactions(compared: Sequence[Factor], analysis: Analysis) -> Iterator[Interaction]:
    for (a, b), (result, largest) in analysis.interactions.items():
        first, second = compared[a], compared[b]
        cell = largest and (first.values[largest.levels[0]], second.values[largest.levels[1]])
        deviation = largest and (largest.mean, largest.low, largest.high)
        yield Interaction((first.name, second.name), result, cell, deviation)


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
