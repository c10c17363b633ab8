"""How far two orders of the same settings agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from scipy import stats

MIN_SETTINGS = 5  # fewer say nothing about an order
NUM_PERMUTATIONS = 9999


class RankCorrelation(NamedTuple):
    """Spearman's correlation of two orders, and the number of settings that both have."""

    settings: int
    correlation: float


def rank_correlation(first: Mapping[Any, float], second: Mapping[Any, float]) -> RankCorrelation | None:
    """The correlation over the common keys; None if they are few, or one of the orders has equal values alone."""
    columns = _common_values(first, second)
    if len(columns[0]) < MIN_SETTINGS or any(len(set(column)) == 1 for column in columns):
        return None
    return RankCorrelation(len(columns[0]), float(stats.spearmanr(*columns).statistic))


def permutation_p(first: Mapping[Any, float], second: Mapping[Any, float]) -> float:
    """The p-value of a correlation: how many orders of one agree or disagree as much, of all up to seven settings.

    Of more settings, random orders are tried. The t-distribution is wrong for few settings: two equal orders of five
    would have p = 0, and their exact p is 2 / 120.

    >>> order = {name: float(rank) for rank, name in enumerate("abcde")}
    >>> round(permutation_p(order, order), 4)
    0.0167
    """
    a, b = (stats.rankdata(column) for column in _common_values(first, second))
    centered = b - b.mean()

    def statistic(ranks: Any, axis: int) -> Any:
        return (ranks * centered).sum(axis)

    options = {"permutation_type": "pairings", "n_resamples": NUM_PERMUTATIONS, "vectorized": True, "rng": 0}
    return float(stats.permutation_test((a - a.mean(),), statistic, **options).pvalue)


def _common_values(*orders: Mapping[Any, float]) -> list[list[float]]:
    """The values of each order at the keys that all have."""
    common = [key for key in orders[0] if all(key in order for order in orders)]
    return [[order[key] for key in common] for order in orders]
