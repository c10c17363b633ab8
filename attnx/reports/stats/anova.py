"""Analysis of variance of runs that differ in several factors, whichever of their combinations there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from attnx.reports.stats.mean_difference import LEVEL, POOLED, MeanDifference
from attnx.reports.stats.multiple_comparisons import Spread

TINY = 1e-9
Numbers = NDArray[np.float64]


class FTest(NamedTuple):
    """An F-test: the statistic, the degrees of freedom of the term and of the error, and the p-value."""

    f: float
    degrees: int
    error_degrees: int
    p: float


class LevelMean(NamedTuple):
    """The mean that a level of a factor leads to, over all levels of the others alike.

    Attributes:
        mean: None where other factors always change along, so that it cannot be told.
        low: of its 95 % interval; None where nothing tells how much is chance.
        high: of its 95 % interval.
        behind: how far it is from the best level, all pairs allowed for; None of the best, and as above.
    """

    mean: float | None
    low: float | None
    high: float | None
    behind: MeanDifference | None


class Deviation(NamedTuple):
    """How far the mean of two levels together is from what each of them adds by itself.

    Attributes:
        levels: of the two factors.
        mean: above zero is more than they add.
        low: of its 95 % interval, all pairs of levels of these factors allowed for (Bonferroni).
        high: of the same interval.
    """

    levels: tuple[int, int]
    mean: float
    low: float
    high: float


class InteractionTest(NamedTuple):
    """The test that what one factor does depends on another, and where it does so most; None if that is unknown."""

    test: FTest
    largest: Deviation | None


class Analysis(NamedTuple):
    """What factors and their interactions do.

    Attributes:
        main: the test of each factor; None where it cannot be tested.
        interactions: the test of each pair of factors that can be tested.
        levels: of each factor.
    """

    main: list[FTest | None]
    interactions: dict[tuple[int, int], InteractionTest]
    levels: list[list[LevelMean]]


class _Fit(NamedTuple):
    """What a model leaves of the values: the sum of squares, and how many parameters it has."""

    squares: float
    rank: int


class _Model(NamedTuple):
    """Terms fitted together: their design (runs, parameters), its inverse (parameters, runs), and what they leave."""

    terms: Sequence[Numbers]
    design: Numbers
    inverse: Numbers
    fit: _Fit


class _Error(NamedTuple):
    """The variance of one value.

    Attributes:
        variance: as it was found.
        degrees: of freedom with which it is known; 0 if it is not.
        holds_interactions: whether it was taken for granted that factors do not depend on each other.
    """

    variance: float
    degrees: int
    holds_interactions: bool = False


def analyze(columns: Sequence[NDArray[np.int_]], sizes: Sequence[int], values: Numbers, spread: Spread) -> Analysis:
    """Test each factor and each pair of factors, each beside all terms that do not hold it (type II sums of squares).

    A term's sum of squares is what it adds to a least-squares fit, and its degrees of freedom are the rank that it
    adds; so combinations that are missing cost what cannot be told without them, and nothing else. The error is the
    variance over seeds; with one seed each it is what main effects, and interactions if there are enough runs, leave.

    Source: Searle 1971, Linear Models, chapter 7; intervals of levels by Tukey and Kramer (1956).

    Args:
        columns: of each factor the number of its level, of each run.
        sizes: how many levels each factor has.
        values: of the runs; less is better.
        spread: of the runs over seeds.
    """
    codes = [_coded(column, size) for column, size in zip(columns, sizes, strict=True)]
    pairs = {(a, b): _products(codes[a], codes[b]) for a, b in combinations(range(len(codes)), 2)}
    additive, full = _model(codes, values), _model([*codes, *pairs.values()], values)
    error = _error(additive, full, values, spread)
    main = [_test(additive, place, values, error) for place in range(len(codes))]
    levels = _levels(additive, columns, sizes, values, error)
    if error.holds_interactions:
        return Analysis(main, {}, levels)
    interactions = {}
    for place, (a, b) in enumerate(pairs, start=len(codes)):
        if test := _test(full, place, values, error):
            largest = _largest_deviation(full, place, (sizes[a], sizes[b]), values, error)
            interactions[a, b] = InteractionTest(test, largest)
    return Analysis(main, interactions, levels)


def _code(level: int, size: int) -> Numbers:
    """A level as a fit sees it; the effects of a factor's levels sum to zero."""
    return np.full(size - 1, -1.0) if level == size - 1 else np.eye(size - 1)[level]


def _coded(column: NDArray[np.int_], size: int) -> Numbers:
    return np.stack([_code(int(level), size) for level in column])


def _products(one: Numbers, other: Numbers) -> Numbers:
    return (one[:, :, None] * other[:, None, :]).reshape(len(one), -1)


def _design(terms: Sequence[Numbers], runs: int) -> Numbers:
    design: Numbers = np.concatenate([np.ones((runs, 1)), *terms], axis=1)
    return design


def _fit(terms: Sequence[Numbers], values: Numbers) -> _Fit:
    design = _design(terms, len(values))
    found, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    left = values - design @ found
    return _Fit(float(left @ left), int(rank))


def _model(terms: Sequence[Numbers], values: Numbers) -> _Model:
    design = _design(terms, len(values))
    return _Model(terms, design, np.asarray(np.linalg.pinv(design), dtype=np.float64), _fit(terms, values))


def _error(additive: _Model, full: _Model, values: Numbers, spread: Spread) -> _Error:
    if spread.degrees:
        return _Error(spread.variance, spread.degrees)
    for model, holds_interactions in ((full, False), (additive, True)):
        if degrees := len(values) - model.fit.rank:
            return _Error(model.fit.squares / degrees, degrees, holds_interactions)
    return _Error(0.0, 0)


def _test(model: _Model, place: int, values: Numbers, error: _Error) -> FTest | None:
    """What a term adds to the others; None if it adds nothing that could be told, or no error is known."""
    without = _fit([*model.terms[:place], *model.terms[place + 1 :]], values)
    degrees = model.fit.rank - without.rank
    if not degrees or not error.degrees or error.variance <= 0:
        return None
    f = max(0.0, without.squares - model.fit.squares) / degrees / error.variance
    return FTest(f, degrees, error.degrees, float(stats.f.sf(f, degrees, error.degrees)))


def _largest_deviation(
    model: _Model, place: int, sizes: tuple[int, int], values: Numbers, error: _Error
) -> Deviation | None:
    """Of the pairs of levels whose deviation can be told, the one that deviates most."""
    start = 1 + sum(term.shape[1] for term in model.terms[:place])
    end = start + model.terms[place].shape[1]
    reach = float(stats.t.ppf(1 - LEVEL / 2 / math.prod(sizes), error.degrees))
    found = []
    for one, other in product(range(sizes[0]), range(sizes[1])):
        contrast = np.zeros(model.design.shape[1])
        contrast[start:end] = np.outer(_code(one, sizes[0]), _code(other, sizes[1])).ravel()
        shares = contrast @ model.inverse
        if np.abs(shares @ model.design - contrast).max() < TINY:
            mean, half = float(shares @ values), reach * _error_of(shares, error)
            found.append(Deviation((one, other), mean, mean - half, mean + half))
    return max(found, key=lambda deviation: abs(deviation.mean), default=None)


def _levels(
    model: _Model,
    columns: Sequence[NDArray[np.int_]],
    sizes: Sequence[int],
    values: Numbers,
    error: _Error,
) -> list[list[LevelMean]]:
    found, start = [], 1
    for column, size in zip(columns, sizes, strict=True):
        contrasts = np.zeros((size, model.design.shape[1]))
        contrasts[:, 0] = 1
        contrasts[:, start : start + size - 1] = [_code(level, size) for level in range(size)]
        shares = contrasts @ model.inverse
        told = np.abs(shares @ model.design - contrasts).max(axis=1) < TINY
        known = [bool(told[level] and (column == level).any()) for level in range(size)]
        found.append(_of_factor(shares, known, values, error))
        start += size - 1
    return found


def _of_factor(shares: Numbers, known: Sequence[bool], values: Numbers, error: _Error) -> list[LevelMean]:
    """Of a factor's levels, whose means are the values weighted by ``shares`` (levels, runs)."""
    means = shares @ values
    candidates = [level for level, is_known in enumerate(known) if is_known]
    best = min(candidates, key=means.__getitem__, default=None)
    found = []
    for level, is_known in enumerate(known):
        if not is_known or best is None:
            found.append(LevelMean(None, None, None, None))
        elif not error.degrees:
            found.append(LevelMean(float(means[level]), None, None, None))
        else:
            half = float(stats.t.ppf(1 - LEVEL / 2, error.degrees)) * _error_of(shares[level], error)
            mean = float(means[level])
            behind = None if level == best else _behind(shares[level] - shares[best], values, len(candidates), error)
            found.append(LevelMean(mean, mean - half, mean + half, behind))
    return found


def _error_of(shares: Numbers, error: _Error) -> float:
    return math.sqrt(float(shares @ shares) * error.variance)


def _behind(shares: Numbers, values: Numbers, levels: int, error: _Error) -> MeanDifference | None:
    gap, deviation = float(shares @ values), _error_of(shares, error)
    if deviation == 0:
        return None
    reach = _studentized_range(levels, error.degrees) / math.sqrt(2) * deviation
    p = float(stats.studentized_range.sf(math.sqrt(2) * gap / deviation, levels, error.degrees))
    return MeanDifference(gap, gap - reach, gap + reach, min(1.0, max(0.0, p)), POOLED)


@lru_cache(maxsize=256)
def _studentized_range(levels: int, degrees: int) -> float:
    return float(stats.studentized_range.ppf(1 - LEVEL, levels, degrees))
