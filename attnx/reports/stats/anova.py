"""Analysis of variance (type II) of runs that differ in several factors, for any design."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from attnx.reports.stats.multiple_comparisons import (
    POOLED,
    SIGNIFICANCE_LEVEL,
    MeanDifference,
    PooledVariance,
    compare_all_pairs,
)

TOLERANCE = 1e-9
Numbers = NDArray[np.float64]


class FTest(NamedTuple):
    """An F-test: the statistic, the degrees of freedom of the term and of the error, and the p-value."""

    f: float
    degrees: int
    error_degrees: int
    p: float


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

    An interaction has its largest deviation; None if that cannot be estimated.
    """

    main: list[FTest | None]
    interactions: dict[tuple[int, int], tuple[FTest, Deviation | None]]
    levels: list[list[LevelMean]]


class _LeastSquares:
    """A fit of terms together: its design (runs, parameters), rank, and residual sum of squares."""

    def __init__(self, terms: Sequence[Numbers], values: Numbers) -> None:
        self.terms, self.values = terms, values
        self.design = np.concatenate([np.ones((len(values), 1)), *terms], axis=1)
        parameters, _, rank, _ = np.linalg.lstsq(self.design, values, rcond=None)
        self.rank, self.squares = int(rank), float(np.square(values - self.design @ parameters).sum())

    @cached_property
    def inverse(self) -> Numbers:
        """(parameters, runs)."""
        return np.asarray(np.linalg.pinv(self.design), dtype=np.float64)

    def estimate(self, contrast: Numbers, variance: float) -> tuple[float, float] | None:
        """A contrast of parameters (parameters,) and its standard error; None if it cannot be estimated."""
        weights = contrast @ self.inverse
        if np.abs(weights @ self.design - contrast).max() >= TOLERANCE:
            return None
        return float(weights @ self.values), math.sqrt(float(weights @ weights) * variance)


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
    seeds; with one seed each it is the residual of main effects, and of interactions if there are enough runs.

    Source: Searle 1971, Linear Models, chapter 7; intervals of levels by Tukey and Kramer (1956).

    ``columns`` are of each factor the index of its level in each run, ``sizes`` the number of its levels, and
    ``pooled`` is the variance of the runs over seeds.
    """
    codes = [_coding(size)[column] for column, size in zip(columns, sizes, strict=True)]
    pairs = {
        (a, b): (codes[a][:, :, None] * codes[b][:, None, :]).reshape(len(values), -1)
        for a, b in combinations(range(len(codes)), 2)
    }
    additive, full = _LeastSquares(codes, values), _LeastSquares([*codes, *pairs.values()], values)
    error = pooled if pooled.degrees else _residual_variance(full) or _residual_variance(additive) or pooled
    main = [_test(additive, index, error) for index in range(len(codes))]
    levels, start, sign = [], 1, -1 if is_higher_better else 1
    for column, size in zip(columns, sizes, strict=True):
        contrasts = np.zeros((size, additive.design.shape[1]))
        contrasts[:, 0], contrasts[:, start : start + size - 1] = 1, _coding(size)
        levels.append(_level_means(additive, contrasts, np.unique(column).tolist(), error, sign))
        start += size - 1
    interactions = {}
    if pooled.degrees or full.rank < len(values):  # else interactions are part of the error
        for index, (a, b) in enumerate(pairs, start=len(codes)):
            if test := _test(full, index, error):
                interactions[a, b] = test, _largest_deviation(full, index, (sizes[a], sizes[b]), error)
    return Analysis(main, interactions, levels)


def _coding(size: int) -> Numbers:
    """Sum-to-zero coding (size, size - 1) of the levels of a factor."""
    return np.vstack([np.eye(size - 1), np.full(size - 1, -1.0)])


def _residual_variance(fit: _LeastSquares) -> PooledVariance | None:
    degrees = len(fit.values) - fit.rank
    return PooledVariance(fit.squares / degrees, degrees, None) if degrees else None


def _test(fit: _LeastSquares, index: int, error: PooledVariance) -> FTest | None:
    """The test of a term; None if it adds no rank, or the error is unknown."""
    reduced = _LeastSquares([*fit.terms[:index], *fit.terms[index + 1 :]], fit.values)
    degrees = fit.rank - reduced.rank
    if not degrees or not error.degrees or error.variance <= 0:
        return None
    f = max(0.0, reduced.squares - fit.squares) / degrees / error.variance
    return FTest(f, degrees, error.degrees, float(stats.f.sf(f, degrees, error.degrees)))


def _largest_deviation(
    fit: _LeastSquares, index: int, sizes: tuple[int, int], error: PooledVariance
) -> Deviation | None:
    """The largest deviation among the pairs of levels for which it can be estimated."""
    start = 1 + sum(term.shape[1] for term in fit.terms[:index])
    reach = float(stats.t.ppf(1 - SIGNIFICANCE_LEVEL / 2 / math.prod(sizes), error.degrees))
    deviations = []
    for a, b in product(range(sizes[0]), range(sizes[1])):
        contrast = np.zeros(fit.design.shape[1])
        cell = np.outer(_coding(sizes[0])[a], _coding(sizes[1])[b]).ravel()
        contrast[start : start + len(cell)] = cell
        if estimate := fit.estimate(contrast, error.variance):
            mean, deviation = estimate
            deviations.append(Deviation((a, b), mean, mean - reach * deviation, mean + reach * deviation))
    return max(deviations, key=lambda deviation: abs(deviation.mean), default=None)


def _level_means(
    fit: _LeastSquares, contrasts: Numbers, present: Collection[int], error: PooledVariance, sign: int
) -> list[LevelMean]:
    """The marginal means of a factor's levels from their contrasts (levels, parameters); the best has least x sign."""
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
