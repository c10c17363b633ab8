"""Analysis of variance (type II) of runs that differ in several factors, for any design."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from attnx.reports.stats.mean_difference import POOLED, SIGNIFICANCE_LEVEL, MeanDifference
from attnx.reports.stats.multiple_comparisons import PooledVariance

TOLERANCE = 1e-9
Numbers = NDArray[np.float64]


class FTest(NamedTuple):
    """An F-test: the statistic, the degrees of freedom of the term and of the error, and the p-value."""

    f: float
    degrees: int
    error_degrees: int
    p: float


class LevelMean(NamedTuple):
    """The marginal mean of a level of a factor, with equal weights over the levels of all factors.

    Attributes:
        mean: None if other factors always change along, so that it cannot be estimated.
        low: lower end of its 95 % interval; None if the error is unknown.
        high: upper end.
        difference: from the best level, adjusted for all pairs; None for the best, and as above.
    """

    mean: float | None
    low: float | None
    high: float | None
    difference: MeanDifference | None


class Deviation(NamedTuple):
    """Deviation of the mean of a pair of levels from the sum of their main effects.

    Attributes:
        levels: of the two factors.
        mean: above zero is more than the sum.
        low: lower end of its 95 % interval, adjusted for all pairs of levels of these factors (Bonferroni).
        high: upper end.
    """

    levels: tuple[int, int]
    mean: float
    low: float
    high: float


class InteractionTest(NamedTuple):
    """The test of an interaction of two factors, and its largest deviation; None if that cannot be estimated."""

    test: FTest
    largest: Deviation | None


class Analysis(NamedTuple):
    """An analysis of variance.

    Attributes:
        main: the test of each factor; None if it cannot be tested.
        interactions: the test of each pair of factors that can be tested.
        levels: of each factor.
    """

    main: list[FTest | None]
    interactions: dict[tuple[int, int], InteractionTest]
    levels: list[list[LevelMean]]


class _Fit(NamedTuple):
    """A least-squares fit: the residual sum of squares, and the rank of the design."""

    squares: float
    rank: int


class _ErrorVariance(NamedTuple):
    """The variance of one value.

    Attributes:
        variance: the estimate.
        degrees: its degrees of freedom; 0 if it is unknown.
        includes_interactions: whether interactions are part of the error.
    """

    variance: float
    degrees: int
    includes_interactions: bool = False


class _Model(NamedTuple):
    """Terms fitted together: their design (runs, parameters), its inverse (parameters, runs), and the fit."""

    terms: Sequence[Numbers]
    design: Numbers
    inverse: Numbers
    fit: _Fit
    values: Numbers

    def estimable(self, contrast: Numbers) -> Numbers | None:
        """The weights of the values in a contrast of parameters (parameters,); None if it cannot be estimated."""
        weights = contrast @ self.inverse
        return weights if np.abs(weights @ self.design - contrast).max() < TOLERANCE else None


def analyze(
    columns: Sequence[NDArray[np.int_]], sizes: Sequence[int], values: Numbers, pooled: PooledVariance
) -> Analysis:
    """Test each factor and each pair of factors, each against all terms that do not contain it (type II).

    The sum of squares of a term is what it adds to a least-squares fit, its degrees of freedom are the rank that it
    adds; missing combinations therefore cost only what cannot be estimated without them. The error is the variance over
    seeds; with one seed each it is the residual of main effects, and of interactions if there are enough runs.

    Source: Searle 1971, Linear Models, chapter 7; intervals of levels by Tukey and Kramer (1956).

    Args:
        columns: of each factor the index of its level in each run.
        sizes: number of levels of each factor.
        values: of the runs; less is better.
        pooled: variance of the runs over seeds.
    """
    codes = [_codes(column, size) for column, size in zip(columns, sizes, strict=True)]
    pairs = {(a, b): _products(codes[a], codes[b]) for a, b in combinations(range(len(codes)), 2)}
    additive, full = _model(codes, values), _model([*codes, *pairs.values()], values)
    error = _error_variance(additive, full, pooled)
    main = [_test(additive, index, error) for index in range(len(codes))]
    levels = _level_means(additive, columns, sizes, error)
    if error.includes_interactions:
        return Analysis(main, {}, levels)
    interactions = {}
    for index, (a, b) in enumerate(pairs, start=len(codes)):
        if test := _test(full, index, error):
            interactions[a, b] = InteractionTest(test, _largest_deviation(full, index, (sizes[a], sizes[b]), error))
    return Analysis(main, interactions, levels)


def _code(level: int, size: int) -> Numbers:
    """Sum-to-zero coding of a level."""
    return np.full(size - 1, -1.0) if level == size - 1 else np.eye(size - 1)[level]


def _codes(column: NDArray[np.int_], size: int) -> Numbers:
    return np.stack([_code(int(level), size) for level in column])


def _products(first: Numbers, second: Numbers) -> Numbers:
    return (first[:, :, None] * second[:, None, :]).reshape(len(first), -1)


def _design(terms: Sequence[Numbers], runs: int) -> Numbers:
    return np.asarray(np.concatenate([np.ones((runs, 1)), *terms], axis=1))


def _fit(terms: Sequence[Numbers], values: Numbers) -> _Fit:
    design = _design(terms, len(values))
    parameters, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    residual = values - design @ parameters
    return _Fit(float(residual @ residual), int(rank))


def _model(terms: Sequence[Numbers], values: Numbers) -> _Model:
    design = _design(terms, len(values))
    return _Model(terms, design, np.asarray(np.linalg.pinv(design), dtype=np.float64), _fit(terms, values), values)


def _error_variance(additive: _Model, full: _Model, pooled: PooledVariance) -> _ErrorVariance:
    if pooled.degrees:
        return _ErrorVariance(pooled.variance, pooled.degrees)
    for model, includes_interactions in ((full, False), (additive, True)):
        if degrees := len(model.values) - model.fit.rank:
            return _ErrorVariance(model.fit.squares / degrees, degrees, includes_interactions)
    return _ErrorVariance(0.0, 0)


def _test(model: _Model, index: int, error: _ErrorVariance) -> FTest | None:
    """The test of a term; None if it adds no rank, or the error is unknown."""
    reduced = _fit([*model.terms[:index], *model.terms[index + 1 :]], model.values)
    degrees = model.fit.rank - reduced.rank
    if not degrees or not error.degrees or error.variance <= 0:
        return None
    f = max(0.0, reduced.squares - model.fit.squares) / degrees / error.variance
    return FTest(f, degrees, error.degrees, float(stats.f.sf(f, degrees, error.degrees)))


def _largest_deviation(model: _Model, index: int, sizes: tuple[int, int], error: _ErrorVariance) -> Deviation | None:
    """The largest deviation among the pairs of levels for which it can be estimated."""
    start = 1 + sum(term.shape[1] for term in model.terms[:index])
    end = start + model.terms[index].shape[1]
    reach = float(stats.t.ppf(1 - SIGNIFICANCE_LEVEL / 2 / math.prod(sizes), error.degrees))
    deviations = []
    for a, b in product(range(sizes[0]), range(sizes[1])):
        contrast = np.zeros(model.design.shape[1])
        contrast[start:end] = np.outer(_code(a, sizes[0]), _code(b, sizes[1])).ravel()
        if (weights := model.estimable(contrast)) is not None:
            mean, half = float(weights @ model.values), reach * _standard_error(weights, error)
            deviations.append(Deviation((a, b), mean, mean - half, mean + half))
    return max(deviations, key=lambda deviation: abs(deviation.mean), default=None)


def _level_means(
    model: _Model, columns: Sequence[NDArray[np.int_]], sizes: Sequence[int], error: _ErrorVariance
) -> list[list[LevelMean]]:
    """The marginal means of the levels of each factor."""
    factors, start = [], 1
    for column, size in zip(columns, sizes, strict=True):
        weights: list[Numbers | None] = []
        for level in range(size):
            contrast = np.zeros(model.design.shape[1])
            contrast[0], contrast[start : start + size - 1] = 1, _code(level, size)
            weights.append(model.estimable(contrast) if (column == level).any() else None)
        factors.append(_factor_means(weights, model.values, error))
        start += size - 1
    return factors


def _factor_means(weights: Sequence[Numbers | None], values: Numbers, error: _ErrorVariance) -> list[LevelMean]:
    """Means of a factor's levels from the weights of the values; None where the mean cannot be estimated."""
    estimates = {level: float(row @ values) for level, row in enumerate(weights) if row is not None}
    best = min(estimates, key=estimates.__getitem__, default=0)
    means = []
    for level, row in enumerate(weights):
        if row is None:
            means.append(LevelMean(None, None, None, None))
        elif not error.degrees:
            means.append(LevelMean(estimates[level], None, None, None))
        else:
            half = float(stats.t.ppf(1 - SIGNIFICANCE_LEVEL / 2, error.degrees)) * _standard_error(row, error)
            mean, best_row = estimates[level], weights[best]
            contrast = None if level == best or best_row is None else row - best_row
            difference = None if contrast is None else _tukey_kramer(contrast, values, len(estimates), error)
            means.append(LevelMean(mean, mean - half, mean + half, difference))
    return means


def _standard_error(weights: Numbers, error: _ErrorVariance) -> float:
    return math.sqrt(float(weights @ weights) * error.variance)


def _tukey_kramer(weights: Numbers, values: Numbers, levels: int, error: _ErrorVariance) -> MeanDifference | None:
    difference, deviation = float(weights @ values), _standard_error(weights, error)
    if deviation == 0:
        return None
    half = _studentized_range(levels, error.degrees) / math.sqrt(2) * deviation
    p = float(stats.studentized_range.sf(math.sqrt(2) * difference / deviation, levels, error.degrees))
    return MeanDifference(difference, difference - half, difference + half, min(1.0, max(0.0, p)), POOLED)


@lru_cache(maxsize=256)
def _studentized_range(levels: int, degrees: int) -> float:
    return float(stats.studentized_range.ppf(1 - SIGNIFICANCE_LEVEL, levels, degrees))
