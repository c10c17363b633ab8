"""Whether settings keep their order when a choice changes: rank correlations between the values of each choice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import NamedTuple

from attnx.reports.stats.rank_correlation import rank_correlation
from attnx.reports.sweep.factors import Factor, has_factors
from attnx.reports.sweep.ranking import Ranking


class ValueAgreement(NamedTuple):
    """Spearman's correlation of the orders that the other choices have with two values of ``factor``."""

    factor: str
    values: tuple[str, str]
    settings: int
    correlation: float


def value_agreements(factors: Sequence[Factor], ranking: Ranking) -> list[ValueAgreement]:
    """The agreement of each pair of values of each factor.

    Pairs with few settings that differ in nothing else are left out.
    """
    rows = [row for row in ranking.rows if has_factors(row.setting, factors)]
    agreements = []
    for factor in factors:
        means: dict[int, dict[Hashable, float]] = defaultdict(dict)
        for row in rows:
            fixed = tuple(varied.indices[row.setting] for varied in factors if varied is not factor)
            means[factor.indices[row.setting]][fixed] = row.mean
        for a, b in combinations(sorted(means), 2):
            if (agreement := rank_correlation(means[a], means[b])) is not None:
                values = factor.values[a], factor.values[b]
                agreements.append(ValueAgreement(factor.name, values, agreement.settings, agreement.correlation))
    return agreements
