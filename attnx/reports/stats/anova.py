"""Analysis of variance (type II) of runs that differ in several factors, for any design."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from attnx.reports.stats.f_tests import FTest, TermTest, is_fraction, residual_variance, test_fraction, test_grid
from attnx.reports.stats.least_squares import LeastSquares, ModelFits, Numbers, Term, coding
from attnx.reports.stats.multiple_comparisons import POOLED, SIGNIFICANCE_LEVEL, MeanDifference, compare_all_pairs
from attnx.reports.stats.pooled_variance import PooledVariance

SEEDS: Final = "seeds"
RESIDUAL: Final = "residual"
LACK_OF_FIT: Final = "lack of fit"


class LevelMean(NamedTuple):
    """The marginal mean of a level, with equal weights over the levels of all factors, and its 95 % interval.

    The mean is None if other factors always change along, the interval if the error is unknown. ``difference`` is from
    the best level, adjusted for all pairs; above zero is worse. It is None for the best, and as above.
    """

    mean: float | None = None
    low: float | None = None
    high: float | None = None
    difference: MeanDifference | None = None


class Deviation(NamedTuple):
    """Deviation of the mean of two levels from the sum of their effects; its interval allows for all of their pairs."""

    levels: tuple[int, int]
    mean: float
    low: float
    high: float


class Analysis(NamedTuple):
    """The tests of factors (None if impossible) and of the interactions that can be tested, and the levels' means.

    An interaction has its largest deviation; None if that cannot be estimated. ``error`` is what all are tested by, one
    of the names above.
    """

    main: list[FTest | None]
    interactions: dict[Term, tuple[FTest, Deviation | None]]
    levels: list[list[LevelMean]]
    error: str


def analyze(
    columns: Sequence[NDArray[np.int_]],
    sizes: Sequence[int],
    values: Numbers,
    pooled: PooledVariance,
    is_higher_better: bool = False,
) -> Analysis:
    """Test each factor and each pair of factors, each against all terms that do not contain it (type II).

    The sum of squares of a term is what it adds to a least-squares fit, its degrees of freedom are the rank that it
    adds; missing combinations therefore cost only what cannot be estimated without them. The error is the variance over
    seeds; with one seed each it is the residual of main effects, and of interactions if there are enough runs. In a
    fraction of a grid, or if settings share all levels, it is the lack of fit
    (:func:`attnx.reports.stats.f_tests.test_fraction`). Means of levels are those of the model with all interactions if
    every combination of levels has a run, and some have several seeds, else of the additive model.

    Source: Searle 1971, Linear Models, chapter 7; intervals of levels by Tukey and Kramer (1956).

    ``columns`` are of each factor the index of its level in each run, ``sizes`` the number of its levels, and
    ``pooled`` is the variance of the runs over seeds.
    """
    fits = ModelFits(columns, sizes, values)
    error, source = _error(fits, pooled)
    tests = test_fraction(fits, pooled) if source == LACK_OF_FIT else test_grid(fits, error)
    sign = -1 if is_higher_better else 1
    has_interactions = source == SEEDS and fits.num_cells == math.prod(sizes)
    fit = fits[fits.full if has_interactions else fits.additive]
    levels = [
        _level_means(fit, term, np.unique(column).tolist(), error, sign)
        for term, column in zip(fits.main, columns, strict=True)
    ]
    interactions = {
        pair: (tests[pair].test, _largest_deviation(tests[pair], pair, (sizes[pair[0]], sizes[pair[1]])))
        for pair in fits.pairs
        if pair in tests
    }
    main = [tests[term].test if term in tests else None for term in fits.main]
    return Analysis(main, interactions, levels, source)


def _error(fits: ModelFits, pooled: PooledVariance) -> tuple[PooledVariance, str]:
    """The error of means, and of the tests in a grid, and where it comes from."""
    lack_of_fit = residual_variance(fits[fits.additive], pooled)
    # Settings that share all levels, as those with grouped numbers do, differ by more than their seeds.
    if is_fraction(fits) or len(fits.values) - pooled.degrees > fits.num_cells:
        return lack_of_fit, LACK_OF_FIT
    if pooled.degrees:
        return pooled, SEEDS
    residual = residual_variance(fits[fits.full], pooled)
    return residual if residual.degrees else lack_of_fit, RESIDUAL


def _largest_deviation(result: TermTest, pair: Term, sizes: tuple[int, int]) -> Deviation | None:
    """The largest deviation among the pairs of levels for which it can be estimated."""
    _, fit, error = result
    reach = float(stats.t.ppf(1 - SIGNIFICANCE_LEVEL / 2 / math.prod(sizes), error.degrees))
    deviations = []
    for a, b in product(range(sizes[0]), range(sizes[1])):
        contrast = np.zeros(fit.design.shape[1])
        contrast[fit.columns[pair]] = np.outer(coding(sizes[0])[a], coding(sizes[1])[b]).ravel()
        if estimate := fit.estimate(contrast, error.variance):
            mean, deviation = estimate
            deviations.append(Deviation((a, b), mean, mean - reach * deviation, mean + reach * deviation))
    return max(deviations, key=lambda deviation: abs(deviation.mean), default=None)


def _level_means(
    fit: LeastSquares, term: Term, present: Collection[int], error: PooledVariance, sign: int
) -> list[LevelMean]:
    """The marginal means of a factor's levels in a fitted model; the best has least x sign."""
    codes = coding(fit.columns[term].stop - fit.columns[term].start + 1)
    contrasts = np.zeros((len(codes), fit.design.shape[1]))
    contrasts[:, 0], contrasts[:, fit.columns[term]] = 1, codes
    estimates = {level: estimate for level in present if (estimate := fit.estimate(contrasts[level], error.variance))}
    best = min(estimates, key=lambda level: sign * estimates[level][0], default=0)
    reach = float(stats.t.ppf(1 - SIGNIFICANCE_LEVEL / 2, error.degrees)) if error.degrees else math.nan
    means = []
    for level, contrast in enumerate(contrasts):
        if level not in estimates or not error.degrees:
            means.append(LevelMean(estimates[level][0] if level in estimates else None))
            continue
        mean, deviation = estimates[level]
        difference = None
        if level != best and error.variance > 0:
            gap = fit.estimate(sign * (contrast - contrasts[best]), error.variance)
            assert gap is not None, "both means can be estimated"
            difference = compare_all_pairs(*gap, len(estimates), error.degrees, POOLED)
        means.append(LevelMean(mean, mean - reach * deviation, mean + reach * deviation, difference))
    return means
