"""How far settings agree in what they attend to: hard alignments of runs that differ in one choice alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Any, NamedTuple

from attnx.reports.stats.hard_alignments import alignment_agreement
from attnx.reports.sweep.factors import Factor, has_factors
from attnx.reports.sweep.length_rates import length_counts
from attnx.reports.sweep.ranking import Ranking
from attnx.reports.sweep.run_record import RunRecord

SEEDS = "seed"
Levels = tuple[int, ...]


class AlignmentAgreement(NamedTuple):
    """The share of steps at which runs with two values of a choice read the same position most, and their number.

    The runs of a pair differ in that choice alone. ``factor`` is ``seed``, without values, for runs of one setting.
    """

    factor: str
    values: tuple[str, str]
    share: float
    pairs: int


def alignment_agreements(factors: Sequence[Factor], ranking: Ranking) -> list[AlignmentAgreement]:
    """The agreement over seeds, and of each pair of values of each factor for which there are runs."""
    runs = {
        (tuple(factor.indices[row.setting] for factor in factors), run.seed): run
        for row in ranking.rows
        if has_factors(row.setting, factors)
        for run in ranking.settings[row.setting].runs
        if run.outputs.hard_alignments
    }
    shares: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for key, first, second in _pairs(factors, runs):
        tests = [run.outputs.tested.order for run in (first, second) if run.outputs.tested]
        # Examples go by their place in the test, and are chosen and aligned by the symbols of their sources.
        if len(set(tests)) > 1 or length_counts(first) != length_counts(second):
            continue
        share = alignment_agreement(first.outputs.hard_alignments, second.outputs.hard_alignments)
        if share is not None:
            shares[key].append(share)
    return [AlignmentAgreement(factor, (a, b), fmean(values), len(values)) for (factor, a, b), values in shares.items()]


def _pairs(
    factors: Sequence[Factor], runs: Mapping[tuple[Levels, Any], RunRecord]
) -> Iterator[tuple[tuple[str, str, str], RunRecord, RunRecord]]:
    """Pairs of runs that differ in their seed alone, or in one factor alone, with its name and their two values."""
    by_setting: dict[Levels, list[RunRecord]] = defaultdict(list)
    for (levels, _), run in runs.items():
        by_setting[levels].append(run)
    for group in by_setting.values():
        yield from (((SEEDS, "", ""), first, second) for first, second in combinations(group, 2))
    for index, factor in enumerate(factors):
        alike: dict[tuple[Levels, Any], list[tuple[int, RunRecord]]] = defaultdict(list)
        for (levels, seed), run in runs.items():
            alike[levels[:index] + levels[index + 1 :], seed].append((levels[index], run))
        for group_of_factor in alike.values():
            for (a, first), (b, second) in combinations(sorted(group_of_factor, key=lambda member: member[0]), 2):
                yield (factor.name, factor.values[a], factor.values[b]), first, second
