"""The variance within groups, pooled over all groups but those whose own is far above the others'."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy import stats

LEVENE_LEVEL: Final = 0.05  # of the test of equal variances
OUTLYING_LEVEL: Final = 0.001  # of the test that leaves a group out
MIN_VALUES_FOR_LEVENE = 3  # of each group; two values are equally far from their median
Groups = Sequence[Sequence[float]]


class PooledVariance(NamedTuple):
    """The variance within groups and its degrees of freedom, 0 if no group has two values.

    ``levene_p`` is the p-value of Levene's test (about medians) of equal variances, of the groups with three values or
    more; None if there are not two, or a group has one value, for whose variance that of the others must do.
    ``outlying`` are the groups, by index, whose variances are far above the others' and are left out.
    """

    variance: float
    degrees: int
    levene_p: float | None
    outlying: frozenset[int] = frozenset()

    @property
    def is_homogeneous(self) -> bool:
        """Whether Levene's test does not reject equal variances."""
        return self.levene_p is None or self.levene_p >= LEVENE_LEVEL


def pool_variance(groups: Groups) -> PooledVariance:
    """Pool the variance within groups, and test its homogeneity (Brown and Forsythe 1974).

    A group whose variance is far above the others' is left out: a setting that sometimes fails to learn would hide the
    differences of all settings.
    """
    outlying = _outlying(groups)
    pooled = within_variance([group for index, group in enumerate(groups) if index not in outlying])
    return pooled._replace(outlying=outlying)


def within_variance(groups: Groups) -> PooledVariance:
    """As :func:`pool_variance`, of all groups: the error of an analysis of variance of all of them."""
    degrees = sum(len(group) - 1 for group in groups)
    if not degrees:
        return PooledVariance(0.0, 0, None)
    variance = sum(group_variance(group) * len(group) for group in groups) / degrees
    testable = [group for group in groups if len(group) >= MIN_VALUES_FOR_LEVENE]
    is_testable = len(testable) > 1 and variance > 0 and min(map(len, groups)) > 1
    with np.errstate(divide="ignore", invalid="ignore"):  # where all values of a group are as far from its median
        p = float(stats.levene(*testable, center="median").pvalue) if is_testable else math.nan
    return PooledVariance(variance, degrees, None if math.isnan(p) else p)


def group_variance(values: Sequence[float], ddof: int = 0) -> float:
    """The variance of a group, exactly 0 if its values are equal: the mean of equal values may be rounded."""
    return float(np.var(np.subtract(values, values[0]), ddof=ddof))


def _outlying(groups: Groups) -> frozenset[int]:
    """The groups whose variances are far above those of the rest: Cochran's test, one group after another.

    The largest variance over the pooled one of the rest has an F-distribution; p is that of the largest of so many.
    Source: 't Lam 2010, section 3, https://doi.org/10.1016/j.chemolab.2009.11.005
    """
    squares = {i: group_variance(group) * len(group) for i, group in enumerate(groups) if len(group) > 1}
    degrees = {i: len(groups[i]) - 1 for i in squares}
    outlying: set[int] = set()
    while len(squares) > 2:
        largest = max(squares, key=lambda i: squares[i] / degrees[i])
        remaining = sum(squares[i] for i in squares if i != largest)  # a difference of sums would be rounded away
        remaining_degrees = sum(degrees[i] for i in squares if i != largest)
        if remaining <= 0:
            break
        ratio = squares[largest] / degrees[largest] / (remaining / remaining_degrees)
        if len(squares) * stats.f.sf(ratio, degrees[largest], remaining_degrees) >= OUTLYING_LEVEL:
            break
        outlying.add(largest)
        del squares[largest]
    return frozenset(outlying)
