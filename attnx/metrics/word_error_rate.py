"""Word error rate (WER), also registered as sequence error rate."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.metrics.nearest_reference import nearest_reference
from attnx.metrics.proportions import Proportion
from attnx.registry import register


@register("metric", "word_error_rate")
@register("metric", "sequence_error_rate")
class WordErrorRate(Metric):
    """Sequences whose prediction equals none of their references, in percent of all sequences.

    Formula: ``100 * wrong / sequences``
    Source: Yao and Zweig 2015, section 4, https://arxiv.org/abs/1506.00196

    This is the word error rate of grapheme-to-phoneme conversion, where a word is one sequence of symbols and is right
    or wrong as a whole, not that of speech recognition. It is NaN before the first sequence. Both counts are integers,
    so merging processes is exact.

    >>> metric = WordErrorRate()
    >>> metric.update([["K", "AE"], ["B", "IY"]], [[["K", "AE", "T"]], [["B", "EH"], ["B", "IY"]]])
    >>> metric.compute().item()
    50.0
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    wrong: Tensor
    words: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("wrong", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("words", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, predictions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> None:
        """Count the wrong words of a batch: one prediction and one or more references for each word.

        Raises:
            ValueError: the two lists differ in length, or a word has no reference.
        """
        edits = [nearest_reference(*pair)[0] for pair in zip(predictions, references, strict=True)]
        self.wrong += sum(count > 0 for count in edits)
        self.words += len(edits)

    def compute(self) -> Tensor:
        """Return the rate in percent, a scalar."""
        return 100 * self.wrong / self.words

    def proportions(self) -> dict[str, list[Proportion]]:
        """The share of wrong sequences."""
        return {"": [Proportion(int(self.wrong), int(self.words))]}
