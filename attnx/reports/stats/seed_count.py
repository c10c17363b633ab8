"""Number of seeds that would separate the two best settings."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import NamedTuple

from scipy import stats

from attnx.reports.stats.dunnett import critical_value
from attnx.reports.stats.mean_difference import SIGNIFICANCE_LEVEL
from attnx.reports.stats.multiple_comparisons import PooledVariance

POWER = 0.8
MAX_SEEDS = 100  # of each setting


class SeedCount(NamedTuple):
    """Seeds of each setting; None is more than ``MAX_SEEDS``.

    Attributes:
        likely: with the estimated variance.
        low: with the lower end of its 95 % interval.
        high: with the upper end.
    """

    likely: int | None
    low: int | None
    high: int | None


def seeds_needed(difference: float, pooled: PooledVariance, settings: int) -> SeedCount:
    """Seeds with which Dunnett's test finds a true difference with a power of 80 %.

    By the normal approximation of the power: the difference must be (critical value + 0.84) standard errors. The
    interval follows from the chi-square distribution of the pooled variance.

    Args:
        difference: above zero.
        pooled: with one degree of freedom or more, and above zero.
        settings: number of compared settings.
    """
    ratios = stats.chi2.ppf([1 - SIGNIFICANCE_LEVEL / 2, SIGNIFICANCE_LEVEL / 2], pooled.degrees) / pooled.degrees
    low, high = (_seeds(difference, math.sqrt(pooled.variance / ratio), settings) for ratio in ratios)
    return SeedCount(_seeds(difference, math.sqrt(pooled.variance), settings), low, high)


def _seeds(difference: float, deviation: float, settings: int) -> int | None:
    margin = float(stats.norm.ppf(POWER))

    def is_enough(seeds: int) -> bool:
        critical = critical_value(SIGNIFICANCE_LEVEL, (seeds,) * (settings - 1), seeds, settings * (seeds - 1))
        return difference >= (critical + margin) * deviation * math.sqrt(2 / seeds)

    seeds = 2 + bisect_left(range(2, MAX_SEEDS + 1), True, key=is_enough)
    return seeds if seeds <= MAX_SEEDS else None
