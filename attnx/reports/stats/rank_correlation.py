"""How far two orders of the same settings agree."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from scipy import stats

MIN_SETTINGS = 5  # fewer say nothing about an order


class RankCorrelation(NamedTuple):
    """Spearman's correlation of two orders, its p-value, and the number of settings that both have."""

    settings: int
    correlation: float
    p: float


def rank_correlation(first: Mapping[Hashable, float], second: Mapping[Hashable, float]) -> RankCorrelation | None:
    """The correlation over the common keys; None if they are few, or one of the orders has equal values alone."""
    common = [key for key in first if key in second]
    values = [[order[key] for key in common] for order in (first, second)]
    if len(common) < MIN_SETTINGS or any(len(set(column)) == 1 for column in values):
        return None
    test = stats.spearmanr(*values)
    return RankCorrelation(len(common), float(test.statistic), float(test.pvalue))
