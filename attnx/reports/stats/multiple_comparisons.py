"""Multiple comparisons with the best: the difference of each of several means from the best one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from attnx.reports.stats.dunnett import critical_value, exceedance
from attnx.reports.stats.mean_difference import EXAMPLES, POOLED, SIGNIFICANCE_LEVEL, UNEQUAL, MeanDifference

MIN_VALUES_FOR_LEVENE = 3  # of each group; two values are equally far from their median
Groups = Sequence[Sequence[float]]
Numbers = NDArray[np.float64]


class PooledVariance(NamedTuple):
    """The variance within groups.

    Attributes:
        variance: pooled over groups.
        degrees: degrees of freedom; 0 if no group has two values.
        levene_p: p-value of Levene's test (about medians) of equal variances; None if a group has too few values.
    """

    variance: float
    degrees: int
    levene_p: float | None

    @property
    def is_homogeneous(self) -> bool:
        """Whether Levene's test does not reject equal variances."""
        return self.levene_p is None or self.levene_p >= SIGNIFICANCE_LEVEL


def pool_variance(groups: Groups) -> PooledVariance:
    """Pool the variance within groups, and test its homogeneity (Brown and Forsythe 1974)."""
    degrees = sum(len(group) - 1 for group in groups)
    if not degrees:
        return PooledVariance(0.0, 0, None)
    variance = sum(float(np.var(group)) * len(group) for group in groups) / degrees
    is_testable = len(groups) > 1 and variance > 0 and all(len(group) >= MIN_VALUES_FOR_LEVENE for group in groups)
    p = float(stats.levene(*groups, center="median").pvalue) if is_testable else None
    return PooledVariance(variance, degrees, p)


def compare_with_best(groups: Groups) -> list[MeanDifference | None]:
    """The difference of each group's mean from the least one, the best; None for the best, and if no test is possible.

    Each group is the control of a two-sided Dunnett test against all groups, with pooled variance, so that its result
    holds whichever group had turned out best. These are multiple comparisons with the best in the form of Edwards and
    Hsu (1983, https://doi.org/10.1080/01621459.1983.10477047): if the two best are equal, all but one group are
    excluded with a probability of at most 5 %. With two groups it is Student's t-test.

    If Levene's test rejects equal variances, each difference has a variance estimated from its two groups, and the
    largest of all differences is allowed for (Games and Howell 1976, https://doi.org/10.3102/10769986001002113).

    Args:
        groups: two or more, of one value or more each; less is better.
    """
    pooled = pool_variance(groups)
    means = [float(np.mean(group)) for group in groups]
    best = means.index(min(means))
    differences: list[MeanDifference | None] = []
    for index, group in enumerate(groups):
        if index == best or not pooled.degrees:
            differences.append(None)
        elif pooled.is_homogeneous:
            differences.append(_dunnett(means[index] - means[best], groups, index, best, pooled))
        else:
            differences.append(_games_howell(group, groups[best], len(groups)))
    return differences


def _dunnett(difference: float, groups: Groups, index: int, best: int, pooled: PooledVariance) -> MeanDifference | None:
    error = math.sqrt(pooled.variance * (1 / len(groups[index]) + 1 / len(groups[best])))
    if error == 0:
        return None if difference else MeanDifference(0.0, 0.0, 0.0, 1.0, POOLED)
    sizes = tuple(sorted(len(group) for place, group in enumerate(groups) if place != index))
    design = sizes, len(groups[index]), pooled.degrees
    p = exceedance(difference / error, *design)
    return _with_interval(difference, critical_value(SIGNIFICANCE_LEVEL, *design) * error, p, POOLED)


def _games_howell(group: Sequence[float], best: Sequence[float], groups: int) -> MeanDifference | None:
    difference = float(np.mean(group) - np.mean(best))
    error = math.sqrt(sum(float(np.var(values)) / (len(values) - 1) for values in (group, best)))
    if error == 0:
        return None if difference else MeanDifference(0.0, 0.0, 0.0, 1.0, UNEQUAL)
    degrees = stats.ttest_ind(group, best, equal_var=False).df
    largest = stats.studentized_range(groups, degrees)
    half = float(largest.ppf(1 - SIGNIFICANCE_LEVEL)) * error / math.sqrt(2)
    return _with_interval(difference, half, float(largest.sf(math.sqrt(2) * difference / error)), UNEQUAL)


def _with_interval(difference: float, half: float, p: float, test: str) -> MeanDifference:
    return MeanDifference(difference, difference - half, difference + half, min(1.0, max(0.0, p)), test)


def compare_draws_with_best(values: Sequence[float], draws: Numbers) -> list[MeanDifference | None]:
    """The difference of each model from the best on one test, by the bootstrap over its examples.

    As :func:`compare_with_best`, with the bootstrap distribution of the largest standardized difference from each model
    (Westfall and Young 1993, chapter 2), which assumes neither normality nor independence.

    Args:
        values: one per model, two models or more; less is better.
        draws: (samples, models) the same metric on resampled examples, the same for all models.
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
