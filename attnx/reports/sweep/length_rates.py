"""Error rates by source length: where a setting is better, with short sources or with long ones."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import NamedTuple

import numpy as np

from attnx.reports.metric_names import COUNTED, metric_base
from attnx.reports.run.evaluated_examples import SYMBOLS, sum_lengths
from attnx.reports.sweep.ranking import Ranking

COMPARED = (*COUNTED, "bleu", "chrf", "ter")  # metrics of outputs and their references
GROUPS = 4  # of lengths, with about equally many examples


class LengthRates(NamedTuple):
    """The error rate in percent of each setting of a ranking by groups of source lengths, the mean over seeds."""

    label: str  #: what the rate is of, symbols or sequences; languages are together
    groups: list[tuple[int, int]]  #: the first and the last length of each group
    examples: list[int]  #: the test examples of each group
    rates: dict[int, list[float]]  #: by the index of the setting, in the order of the ranking

    @property
    def labels(self) -> list[str]:
        """The groups as text: ``2 to 5``."""
        return [str(low) if low == high else f"{low} to {high}" for low, high in self.groups]


def length_rates(ranking: Ranking) -> LengthRates | None:
    """Rates of what the ranking's metric counts, symbols or sequences, or else of symbols.

    None if a run's errors by length are unknown; if sources have other lengths in some runs, as by another tokenizer;
    or if no metric compares outputs with references: of points in any order, or of continuations, edits say nothing.
    """
    counted = COUNTED.get(metric_base(ranking.metric.key, COUNTED), SYMBOLS)
    runs_of = {row.setting_index: row.setting.runs for row in ranking.rows}
    counts = {setting: [run.examples.length_errors for run in runs] for setting, runs in runs_of.items()}
    has_rates = any(metric_base(name, COMPARED) for runs in runs_of.values() for run in runs for name in run.results)
    if not has_rates or not all(errors for runs in counts.values() for errors in runs):
        return None
    first, *further = (
        {length: errors.examples for length, errors in run.examples.length_errors.items()}
        for runs in runs_of.values()
        for run in runs
    )
    if any(lengths != first for lengths in further):
        return None
    groups = group_lengths(first)
    rates = {
        setting: [fmean(sum_lengths(errors, group).rate(counted) for errors in runs) for group in groups]
        for setting, runs in counts.items()
    }
    examples = [sum(count for length, count in first.items() if low <= length <= high) for low, high in groups]
    return LengthRates(f"{counted.removesuffix('s')} error rate", groups, examples, rates)


def group_lengths(examples: Mapping[int, int]) -> list[tuple[int, int]]:
    """Neighboring lengths in groups of about equally many examples, given the examples of each length.

    >>> group_lengths({2: 10, 3: 10, 4: 20, 5: 20, 9: 1, 11: 19})
    [(2, 3), (4, 4), (5, 5), (9, 11)]
    """
    lengths = sorted(examples)
    shares = np.cumsum([examples[length] for length in lengths]) / sum(examples.values())
    centers = shares - np.diff(shares, prepend=0) / 2  # a length belongs to the group in which its middle example lies
    codes = np.minimum((centers * GROUPS).astype(int), GROUPS - 1)
    members = [
        [length for length, code in zip(lengths, codes, strict=True) if code == group] for group in range(GROUPS)
    ]
    return [(group[0], group[-1]) for group in members if group]
