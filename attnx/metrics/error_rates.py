"""Error rates of predicted sequences: phone and word error rate, also registered under general names."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from attnx.metrics.additive_metric import RatioMetric
from attnx.metrics.nearest_reference import nearest_reference
from attnx.metrics.proportions import Proportion
from attnx.registry import register


@register("metric", "phone_error_rate")
@register("metric", "symbol_error_rate")
class PhoneErrorRate(RatioMetric):
    """Edits per 100 reference symbols, in percent (PER).

    Formula: ``100 * sum(edits) / sum(length) over all sequences``
    Source: Yao and Zweig 2015, section 4, https://arxiv.org/abs/1506.00196; Graves et al. 2006, section 2.1 (label
        error rate), https://doi.org/10.1145/1143844.1143891

    Edits and length are those of the nearest reference (fewest edits, the first of equals). It is a ratio of sums, not
    a mean of ratios, and may exceed 100; it is NaN before the first sequence. Both sums are integers, so merging
    processes is exact.

    >>> metric = PhoneErrorRate()
    >>> metric.update([["K", "AE"]], [[["K", "AE", "T"], ["D", "AO", "G"]]])
    >>> round(metric.compute().item(), 2)
    33.33
    """

    unit = 100
    sums_dtype = torch.int64

    def terms(self, prediction: Sequence[str], reference: Sequence[Sequence[str]]) -> tuple[int, int]:
        """Return the edits, and the length of the nearest reference."""
        edits, nearest = nearest_reference(prediction, reference)
        return edits, len(nearest)


@register("metric", "word_error_rate")
@register("metric", "sequence_error_rate")
class WordErrorRate(RatioMetric):
    """Sequences whose prediction equals none of their references, in percent of all sequences (WER).

    Formula: ``100 * wrong / sequences``
    Source: Yao and Zweig 2015, section 4, https://arxiv.org/abs/1506.00196

    This is the word error rate of grapheme-to-phoneme conversion, where a word is one sequence of symbols and is right
    or wrong as a whole, not that of speech recognition. It is NaN before the first sequence. Both counts are integers,
    so merging processes is exact.

    >>> metric = WordErrorRate()
    >>> metric.update([["K", "AE"], ["B"], ["B", "IY"]], [[["K", "AE", "T"]], [["B"]], [["B", "EH"], ["B", "IY"]]])
    >>> round(metric.compute().item(), 2)
    33.33
    """

    unit = 100
    sums_dtype = torch.int64

    def terms(self, prediction: Sequence[str], reference: Sequence[Sequence[str]]) -> tuple[int, int]:
        """Return whether the sequence is wrong, and 1."""
        return int(nearest_reference(prediction, reference)[0] > 0), 1

    def proportions(self) -> dict[str, list[Proportion]]:
        """The share of wrong sequences."""
        return {"": [Proportion(*map(int, self.sums))]}


@register("metric", "exact_match")
class ExactMatch(RatioMetric):
    """Sequences whose prediction equals one of their references, in percent of all sequences.

    Formula: ``100 * right / sequences``, the rest of :class:`WordErrorRate` to 100
    Source: Cotterell et al. 2018, section 4.3, https://aclanthology.org/K18-3001

    It is NaN before the first sequence. Both counts are integers, so merging processes is exact.

    >>> metric = ExactMatch()
    >>> metric.update([["a"], ["b"], ["c"], ["d"]], [[["a"]], [["c"], ["b"]], [["c"]], [["d", "d"]]])
    >>> metric.compute().item()
    75.0
    """

    higher_is_better = True
    unit = 100
    sums_dtype = torch.int64

    def terms(self, prediction: Sequence[str], reference: Sequence[Sequence[str]]) -> tuple[int, int]:
        """Return whether the sequence is right, and 1."""
        return int(nearest_reference(prediction, reference)[0] == 0), 1

    def proportions(self) -> dict[str, list[Proportion]]:
        """The share of right sequences."""
        return {"": [Proportion(*map(int, self.sums))]}


@register("metric", "edit_distance")
class EditDistance(RatioMetric):
    """Edits of a sequence to the nearest of its references, averaged over sequences (Levenshtein distance).

    Formula: ``sum(edits) / sequences``
    Source: Cotterell et al. 2018, section 4.3, https://aclanthology.org/K18-3001

    It is NaN before the first sequence. Both sums are integers, so merging processes is exact.

    >>> metric = EditDistance()
    >>> metric.update([["a", "b"], ["b"]], [[["a", "c", "d"]], [["c"], ["b"]]])
    >>> metric.compute().item()
    1.0
    """

    sums_dtype = torch.int64

    def terms(self, prediction: Sequence[str], reference: Sequence[Sequence[str]]) -> tuple[int, int]:
        """Return the edits, and 1."""
        return nearest_reference(prediction, reference)[0], 1
