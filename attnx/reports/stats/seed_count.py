"""How many seeds would tell the two best settings apart, and how far that number can be trusted."""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy import stats

from attnx.reports.stats.dunnett import critical_value
from attnx.reports.stats.mean_difference import LEVEL
from attnx.reports.stats.multiple_comparisons import Spread

POWER = 0.8
MOST = 100  # seeds of each setting that anybody would train


class SeedCount(NamedTuple):
    """Seeds of each setting; None is more than ``MOST``.

    Attributes:
        likely: with the spread as it was found.
        low: with the least spread within its 95 % interval.
        high: with the greatest.
    """

    likely: int | None
    low: int | None
    high: int | None


def seeds_needed(gap: float, spread: Spread, settings: int) -> SeedCount:
    """How many seeds exclude a setting that is truly ``gap`` behind with a chance of 80 %, by Dunnett's test.

    The normal approximation of its power: the gap is to be (critical value + 0.84) standard errors. The interval comes
    from the chi-square distribution of the pooled variance.

    Args:
        gap: above zero.
        spread: with one degree of freedom or more, and above zero.
        settings: how many are compared.
    """
    edges = stats.chi2.ppf([1 - LEVEL / 2, LEVEL / 2], spread.degrees) / spread.degrees
    low, high = (_needed(gap, math.sqrt(spread.variance / edge), settings) for edge in edges)
    return SeedCount(_needed(gap, math.sqrt(spread.variance), settings), low, high)


def _needed(gap: float, deviation: float, settings: int) -> int | None:
    beyond = float(stats.norm.ppf(POWER))
    low, high = 1, MOST + 1  # `low` is too few; `high`, if it is not MOST + 1, enough
    while high - low > 1:
        middle = (low + high) // 2
        critical = critical_value(LEVEL, (middle,) * (settings - 1), middle, settings * (middle - 1))
        if gap >= (critical + beyond) * deviation * math.sqrt(2 / middle):
            high = middle
        else:
            low = middle
    return high if high <= MOST else None
