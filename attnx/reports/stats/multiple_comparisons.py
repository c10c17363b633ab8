"""Multiple comparisons with the best: the difference of each of several means from the best one; Holm's correction."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from attnx.reports.stats.largest_difference import dunnett_isf, dunnett_sf, range_isf, range_sf
from attnx.reports.stats.pooled_variance import Groups, PooledVariance, group_variance, pool_variance

SIGNIFICANCE_LEVEL: Final = 0.05
POOLED: Final = "pooled"
UNEQUAL: Final = "unequal"
EXAMPLES: Final = "examples"
POWER = 0.8
MAX_SEEDS = 100  # of each setting
Numbers = NDArray[np.float64]


class MeanDifference(NamedTuple):
    """The difference of two means, its 95 % interval, a two-sided p-value, and the test, one of the names above."""

    difference: float
    low: float
    high: float
    p: float
    test: str


def compare_with_best(groups: Groups) -> list[MeanDifference | None]:
    """The difference of each group's mean from the least one, the best; None for the best, and if no test is possible.

    Each group is the control of a two-sided Dunnett test against all groups, with pooled variance, so that its result
    holds whichever group had turned out best. These are multiple comparisons with the best in the form of Edwards and
    Hsu (1983, https://doi.org/10.1080/01621459.1983.10477047): if the two best are equal, all but one group are
    excluded with a probability of at most 5 %. With two groups it is Student's t-test. A group that is left out of the
    pooled variance has its own, and the degrees of freedom of its differences are Satterthwaite's (Hasler and Hothorn
    2008, https://doi.org/10.1002/bimj.200710466).

    If Levene's test rejects equal variances, each difference has a variance estimated from its two groups, and the
    largest of all differences is allowed for (Games and Howell 1976, https://doi.org/10.3102/10769986001002113).
    """
    pooled = pool_variance(groups)
    means = [fmean(group) for group in groups]  # as settings are ranked
    best = means.index(min(means))
    differences: list[MeanDifference | None] = []
    for index in range(len(groups)):
        if index == best or not pooled.degrees:
            differences.append(None)
        elif pooled.is_homogeneous:
            differences.append(_dunnett(means[index] - means[best], groups, index, best, pooled))
        else:
            differences.append(_games_howell(means[index] - means[best], groups, index, best))
    return differences


def compare_with_control(groups: Groups) -> list[MeanDifference | None]:
    """The difference of each further group's mean from that of the first, the control; None if no test is possible.

    Dunnett's two-sided test (1955, https://doi.org/10.1080/01621459.1955.10501294) with pooled variance. Variances that
    are not equal are dealt with as in :func:`compare_with_best`.
    """
    pooled = pool_variance(groups)
    if not pooled.degrees:
        return [None] * (len(groups) - 1)
    gaps = [float(np.mean(group) - np.mean(groups[0])) for group in groups]
    if not pooled.is_homogeneous:
        return [_games_howell(gaps[index], groups, index, 0) for index in range(1, len(groups))]
    return [_dunnett(gaps[index], groups, 0, index, pooled) for index in range(1, len(groups))]


def _games_howell(difference: float, groups: Groups, index: int, control: int) -> MeanDifference | None:
    """Each difference has a variance of its two groups, adjusted for all pairs."""
    pair = groups[index], groups[control]
    error = math.sqrt(sum(group_variance(values) / (len(values) - 1) for values in pair))
    degrees = stats.ttest_ind(*pair, equal_var=False).df if error else 0.0
    return compare_all_pairs(difference, error, len(groups), degrees, UNEQUAL)


def _dunnett(
    difference: float, groups: Groups, control: int, index: int, pooled: PooledVariance
) -> MeanDifference | None:
    """The difference of a group from the control, or of the best from a group that is the control."""
    error, degrees, test = _standard_error(groups, (control, index), pooled)
    if error == 0:
        return _without_error(difference, test)
    sizes = tuple(sorted(len(group) for i, group in enumerate(groups) if i != control))
    design = sizes, len(groups[control]), degrees
    p = dunnett_sf(abs(difference) / error, *design)
    return _with_interval(difference, dunnett_isf(SIGNIFICANCE_LEVEL, *design) * error, p, test)


def _standard_error(groups: Groups, pair: tuple[int, int], pooled: PooledVariance) -> tuple[float, float, str]:
    """The standard error of a difference, its degrees of freedom, and the test that these make."""
    if pooled.outlying.isdisjoint(pair):
        return math.sqrt(sum(pooled.variance / len(groups[i]) for i in pair)), pooled.degrees, POOLED
    variances = {i: group_variance(groups[i], ddof=1) if i in pooled.outlying else pooled.variance for i in pair}
    degrees = {i: len(groups[i]) - 1 if i in pooled.outlying else pooled.degrees for i in pair}
    terms = {i: variances[i] / len(groups[i]) for i in pair}
    total = sum(terms.values())
    return math.sqrt(total), total**2 / sum(terms[i] ** 2 / degrees[i] for i in pair), UNEQUAL


def compare_all_pairs(difference: float, error: float, groups: int, degrees: float, test: str) -> MeanDifference | None:
    """A difference with a standard error, adjusted for all pairs of groups by the studentized range (Tukey)."""
    if error == 0:
        return _without_error(difference, test)
    p = range_sf(math.sqrt(2) * abs(difference) / error, groups, degrees)
    half = range_isf(SIGNIFICANCE_LEVEL, groups, degrees) * error / math.sqrt(2)
    return _with_interval(difference, half, p, test)


def _without_error(difference: float, test: str) -> MeanDifference | None:
    """Values that never vary are equal, or cannot be tested."""
    return None if difference else MeanDifference(0.0, 0.0, 0.0, 1.0, test)


def _with_interval(difference: float, half: float, p: float, test: str) -> MeanDifference:
    return MeanDifference(difference, difference - half, difference + half, min(1.0, max(0.0, p)), test)


def adjust_by_holm(p: Sequence[float]) -> list[float]:
    """Adjust p-values so that with none of the effects the chance that any is significant is at most 5 %.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure, https://www.jstor.org/stable/4615733.

    >>> [round(value, 3) for value in adjust_by_holm([0.03, 0.01, 0.04])]
    [0.06, 0.03, 0.06]
    """
    order = sorted(range(len(p)), key=p.__getitem__)
    steps = np.array([(len(p) - step) * p[index] for step, index in enumerate(order)])
    adjusted = dict(zip(order, np.maximum.accumulate(steps).clip(max=1).tolist(), strict=True))
    return [adjusted[index] for index in range(len(p))]


def compare_draws_with_best(values: Sequence[float], draws: Numbers) -> list[MeanDifference | None]:
    """The difference of each model from the best on one test, by the bootstrap over its examples.

    As :func:`compare_with_best`, with the bootstrap distribution of the largest standardized difference from each model
    (Westfall and Young 1993, chapter 2), which assumes neither normality nor independence. ``draws`` (samples, models)
    are the metric on resampled examples, the same for all models; less is better.
    """
    best = min(range(len(values)), key=values.__getitem__)
    return [
        None if index == best else _compare_draws(np.array(values), draws, index, best) for index in range(len(values))
    ]


def _compare_draws(values: Numbers, draws: Numbers, index: int, best: int) -> MeanDifference:
    differences = draws[:, index : index + 1] - draws
    errors = differences.std(axis=0, ddof=1)
    difference, error = float(values[index] - values[best]), float(errors[best])
    if error == 0:
        return MeanDifference(difference, difference, difference, 0.0 if difference else 1.0, EXAMPLES)
    differs = errors > 0
    largest = np.abs((differences - differences.mean(axis=0))[:, differs] / errors[differs]).max(axis=1)
    p = (np.count_nonzero(largest >= difference / error) + 1) / (len(draws) + 1)
    half = float(np.quantile(largest, 1 - SIGNIFICANCE_LEVEL)) * error
    return _with_interval(difference, half, float(p), EXAMPLES)


class SeedCount(NamedTuple):
    """Seeds of each setting with the estimated variance and the ends of its 95 % interval; None is above 100."""

    likely: int | None
    low: int | None
    high: int | None


def seeds_needed(difference: float, pooled: PooledVariance, settings: int) -> SeedCount:
    """Seeds with which Dunnett's test finds a true difference with a power of 80 %.

    By the normal approximation of the power: the difference must be (critical value + 0.84) standard errors. The
    interval follows from the chi-square distribution of the pooled variance.
    Difference, degrees of freedom and variance are above zero.
    """
    ratios = stats.chi2.ppf([1 - SIGNIFICANCE_LEVEL / 2, SIGNIFICANCE_LEVEL / 2], pooled.degrees) / pooled.degrees
    low, high = (_seeds(difference, math.sqrt(pooled.variance / ratio), settings) for ratio in ratios)
    return SeedCount(_seeds(difference, math.sqrt(pooled.variance), settings), low, high)


def _seeds(difference: float, deviation: float, settings: int) -> int | None:
    margin = float(stats.norm.ppf(POWER))

    def is_enough(seeds: int) -> bool:
        critical = dunnett_isf(SIGNIFICANCE_LEVEL, (seeds,) * (settings - 1), seeds, settings * (seeds - 1))
        return difference >= (critical + margin) * deviation * math.sqrt(2 / seeds)

    seeds = 2 + bisect_left(range(2, MAX_SEEDS + 1), True, key=is_enough)
    return seeds if seeds <= MAX_SEEDS else None
