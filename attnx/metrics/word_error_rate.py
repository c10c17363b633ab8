"""Word error rate: how many words are not exactly right."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.metrics.nearest_reference import closest
from attnx.metrics.proportions import Proportion
from attnx.registry import register


@register("metric", "word_error_rate")
class WordErrorRate(Metric):
    """Words whose prediction equals none of their references, in percent of all words.

    Formula: ``100 * wrong / words``
    Source: Yao and Zweig 2015, section 4, https://arxiv.org/abs/1506.00196

    This is the word error rate of grapheme-to-phoneme conversion, where a word is right or wrong as a whole,
    not that of speech recognition. It is NaN before the first word. The two counts are whole numbers, so
    merging processes loses nothing.

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
        found = [closest(*word) for word in zip(predictions, references, strict=True)]
        self.wrong += sum(edits > 0 for edits, _ in found)
        self.words += len(found)

    def compute(self) -> Tensor:
        """Return the rate in percent, a scalar."""
        return 100 * self.wrong / self.words

    def proportions(self) -> dict[str, list[Proportion]]:
        """The wrong words of all words."""
        return {"": [Proportion(int(self.wrong), int(self.words))]}
