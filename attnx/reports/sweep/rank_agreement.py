"""How far tests agree about settings: the rank correlation of the settings that they share."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from attnx.config.view import choice_text
from attnx.reports.stats.rank_correlation import permutation_p, rank_correlation
from attnx.reports.sweep.comparison import Comparison
from attnx.reports.sweep.settings import key_part


class RankAgreement(NamedTuple):
    """Spearman's correlation of two comparisons' orders of the settings that both have, and its p-value.

    1 if both rank them alike, whether higher or lower values are better.
    """

    titles: tuple[str, str]
    settings: int
    correlation: float
    p: float


def rank_agreements(compared: Sequence[Comparison]) -> list[RankAgreement]:
    """The agreement of each pair of comparisons, by their main metrics; pairs with few common settings are left out."""
    keys = _identifying_keys(compared)
    means = [(comparison.title, _means(comparison, keys)) for comparison in compared if comparison.rankings]
    agreements = []
    for (first, a), (second, b) in combinations(means, 2):
        if (agreement := rank_correlation(a, b)) is not None:
            agreements.append(RankAgreement((first, second), *agreement, permutation_p(a, b)))
    return agreements


def _identifying_keys(compared: Sequence[Comparison]) -> list[str]:
    """What varies in some comparison, but for the task, and all knobs of the parts that do: they may differ between."""
    varied = dict.fromkeys(key for comparison in compared for key in comparison.keys if key_part(key) != "task")
    settings = [setting for comparison in compared for setting in comparison.settings]
    choices = dict.fromkeys(key for setting in settings for key in setting.runs[0].choices)
    return [*varied, *(key for key in choices if key not in varied and key_part(key) in varied)]


def _means(comparison: Comparison, keys: Iterable[str]) -> dict[Hashable, float]:
    """The mean of each setting's main metric by its values of some keys; less is better."""
    ranking = comparison.rankings[0]
    sign = -1 if ranking.metric.is_higher_better else 1
    choices = [comparison.settings[row.setting].runs[0].choices for row in ranking.rows]
    identities = [tuple(choice_text(run[key]) if key in run else None for key in keys) for run in choices]
    return {identity: sign * row.mean for identity, row in zip(identities, ranking.rows, strict=True)}
