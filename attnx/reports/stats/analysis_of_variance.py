"""The effects of several choices on the means of settings: marginal means, and type II tests, for any design."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from attnx.reports.stats.multiple_comparisons import (
    SEEDS,
    SIGNIFICANCE_LEVEL,
    Groups,
    MeanDifference,
    Numbers,
    adjust_by_holm,
    count_draws,
    difference_by_chance,
    largest_of_all_pairs,
    sum_of_squares,
)

SETTINGS: Final = "settings"
UNKNOWN: Final = "unknown"
TOLERANCE: Final = 1e-9
Term = tuple[int, ...]
"""A main effect, ``(0,)`` of the first choice, or an interaction, ``(0, 2)`` of the first and the third."""


class FTest(NamedTuple):
    """An F-test: the statistic, the degrees of freedom of the term and of the error, and the p-value.

    ``adjusted_p`` is adjusted by Holm for all tests of main effects, or of interactions.
    """

    f: float
    degrees: int
    error_degrees: int
    p: float
    adjusted_p: float


class LevelMean(NamedTuple):
    """The marginal mean of a level, with equal weights over the levels of all other choices, and its 95 % interval.

    The mean is None if other choices always change along, the interval if the error is unknown. ``difference`` is from
    the best level, adjusted for all pairs; above zero is worse. It is None for the best, and as above.
    """

    mean: float | None = None
    low: float | None = None
    high: float | None = None
    difference: MeanDifference | None = None


class Analysis(NamedTuple):
    """The tests of choices and of pairs of choices that can be tested, the means of levels, and the error of all."""

    tests: dict[Term, FTest]
    levels: list[list[LevelMean]]
    error: str


class Fit:
    """A least-squares fit of terms to the means of settings.

    Attributes:
        design: (settings, parameters), the intercept first; each term has its ``columns``.
        rank: of the design.
        squares: residual sum of squares.
    """

    def __init__(
        self, columns: Sequence[NDArray[np.int_]], sizes: Sequence[int], terms: Sequence[Term], means: Numbers
    ) -> None:
        blocks, self.columns = [np.ones((len(means), 1))], {}
        for term in terms:
            block = np.ones((len(means), 1))
            for factor in term:  # deviations from the mean of the levels, so that other terms are means over levels
                block = (block[:, :, None] * _coding(sizes[factor])[columns[factor]][:, None]).reshape(len(means), -1)
            start = sum(earlier.shape[1] for earlier in blocks)
            self.columns[term] = slice(start, start + block.shape[1])
            blocks.append(block)
        self.design, self.means = np.concatenate(blocks, axis=1), means
        parameters, _, rank, _ = np.linalg.lstsq(self.design, means, rcond=None)
        self.rank, self.squares = int(rank), float(np.square(means - self.design @ parameters).sum())
        rounding = len(means) * np.finfo(float).eps * float(np.abs(means).max())
        if self.squares <= len(means) * rounding**2:  # the fit is exact
            self.squares = 0.0

    @cached_property
    def inverse(self) -> Numbers:
        """(parameters, settings)."""
        return np.asarray(np.linalg.pinv(self.design), dtype=np.float64)


class Error(NamedTuple):
    """The variance of a setting's mean about a model, its degrees of freedom, and what it is over."""

    variance: float
    degrees: int
    source: str


def analyze(columns: Sequence[NDArray[np.int_]], sizes: Sequence[int], groups: Groups) -> Analysis:
    """Test each choice, and each pair of choices, in a model of all choices (and that pair).

    Each setting counts once, with the mean of its seeds, and the error is the variance of settings about the model: an
    effect is significant if it stands out from what the other choices make of it. Where the model fits all settings, as
    in a sweep of one choice, the error is the variance over seeds, unknown if a setting has one seed.

    ``columns`` has the index of each choice's level in each setting, ``sizes`` the numbers of levels; less is better.
    Source: Searle 1971, Linear Models, chapter 7 (type II); levels by Tukey and Kramer (1956).
    """
    means, main = np.array([np.mean(group) for group in groups]), [(factor,) for factor in range(len(sizes))]
    fit = Fit(columns, sizes, main, means)
    error = _error(fit, groups)
    tests: dict[Term, FTest] = {}
    for terms in (main, list(combinations(range(len(sizes)), 2))):
        by_term = {}  # the tests of what a model has beyond a reduced one
        for term in terms:
            full = fit if term in main else Fit(columns, sizes, [*main, term], means)
            reduced = Fit(columns, sizes, [factor for factor in main if factor != term], means) if term in main else fit
            about, degrees = _error(full, groups), full.rank - reduced.rank
            if degrees and about.variance > 0:
                f = max(0.0, reduced.squares - full.squares) / degrees / about.variance
                p = float(stats.f.sf(f, degrees, about.degrees))
                by_term[term] = FTest(f, degrees, about.degrees, p, p)
        adjusted = adjust_by_holm([test.p for test in by_term.values()])
        tests |= {term: test._replace(adjusted_p=p) for (term, test), p in zip(by_term.items(), adjusted, strict=True)}
    present = [np.unique(column).tolist() for column in columns]
    levels = [_level_means(fit, term, levels, error) for term, levels in zip(main, present, strict=True)]
    return Analysis(tests, levels, error.source if error.degrees and error.variance > 0 else UNKNOWN)


def _error(fit: Fit, groups: Groups) -> Error:
    """The variance of settings about a model, or if it fits all of them, over their seeds, of which all have two."""
    if degrees := len(groups) - fit.rank:
        return Error(fit.squares / degrees, degrees, SETTINGS)
    degrees = sum(len(group) - 1 for group in groups) if min(map(len, groups)) > 1 else 0
    share = float(np.mean([1 / len(group) for group in groups]))
    return Error(sum(map(sum_of_squares, groups)) / degrees * share if degrees else 0.0, degrees, SEEDS)


def _level_means(fit: Fit, term: Term, present: Sequence[int], error: Error) -> list[LevelMean]:
    """The marginal means of a choice's levels; the best has the least."""
    codes = _coding(fit.columns[term].stop - fit.columns[term].start + 1)
    contrasts = np.zeros((len(codes), fit.design.shape[1]))
    contrasts[:, 0], contrasts[:, fit.columns[term]] = 1, codes
    weights = contrasts @ fit.inverse  # (levels, settings)
    is_estimable = np.abs(weights @ fit.design - contrasts).max(axis=1) < TOLERANCE
    estimable = [level for level in present if is_estimable[level]]
    levels, means = [LevelMean() for _ in codes], weights @ fit.means
    best = min(estimable, key=means.__getitem__, default=0)
    has_error = error.degrees and error.variance > 0
    reach = float(stats.t.ppf(1 - SIGNIFICANCE_LEVEL / 2, error.degrees)) if has_error else math.nan
    gaps = weights[estimable][:, None] - weights[estimable]  # (levels, levels, settings)
    pair_errors = np.sqrt(np.square(gaps).sum(axis=2) * error.variance)
    largest = None
    if has_error:  # the errors of the means of settings are drawn
        random, shape = np.random.default_rng(0), (count_draws(len(fit.means)), len(fit.means))
        chi_squares = random.chisquare(error.degrees, (shape[0], 1)) / error.degrees
        draws = random.normal(0, math.sqrt(error.variance), shape) / np.sqrt(chi_squares)
        largest = largest_of_all_pairs(draws @ weights[estimable].T, pair_errors)
    for place, level in enumerate(estimable):
        mean, difference = float(means[level]), None
        if largest is not None and level != best:
            pair_error = float(pair_errors[place, estimable.index(best)])
            difference = difference_by_chance(mean - float(means[best]), pair_error, largest, error.source)
        half = reach * math.sqrt(float(np.square(weights[level]).sum()) * error.variance)
        low, high = (mean - half, mean + half) if has_error else (None, None)
        levels[level] = LevelMean(mean, low, high, difference)
    return levels


def _coding(levels: int) -> Numbers:
    """(levels, levels - 1) the codes of levels, which sum to zero: the last level has -1 in each column."""
    return np.concatenate([np.eye(levels - 1), -np.ones((1, levels - 1))])
