"""Metrics that are proportions of examples, and their exact confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from attnx.runs.results import Interval


class Proportion(NamedTuple):
    """Counted examples out of all examples."""

    counted: int
    examples: int


@runtime_checkable
class ProportionMetric(Protocol):
    """A metric in percent that is a proportion of examples, or a mean of proportions."""

    def proportions(self) -> dict[str, list[Proportion]]:
        """The proportions whose mean each entry of the result is; a scalar's entry is ``""``."""


def interval_of_mean(proportions: Sequence[Proportion]) -> Interval:
    """The 95 % confidence interval of the mean of independent proportions; for one proportion the exact interval.

    Formula: ``m - sqrt(sum (p_i - l_i)^2) / k`` to ``m + sqrt(sum (u_i - p_i)^2) / k``
    Source: Zou and Donner 2008, https://doi.org/10.1002/sim.3095; l and u: Clopper and Pearson 1934,
        https://doi.org/10.1093/biomet/26.4.404

    >>> [round(100 * edge, 2) for edge in interval_of_mean([Proportion(0, 1000)])]
    [0.0, 0.37]
    """
    from scipy.stats import binomtest

    count, mean, below, above = len(proportions), 0.0, 0.0, 0.0
    for counted, examples in proportions:
        share, exact = counted / examples, binomtest(counted, examples).proportion_ci(method="exact")
        mean += share / count
        below += (share - float(exact.low)) ** 2
        above += (float(exact.high) - share) ** 2
    return Interval(max(0.0, mean - math.sqrt(below) / count), min(1.0, mean + math.sqrt(above) / count))
