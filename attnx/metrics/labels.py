"""Measures of classification over named labels, by torchmetrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score

from attnx.metrics.proportions import Proportion
from attnx.registry import register

Labels = Sequence[Sequence[str]]


@register("metric", "accuracy")
class Accuracy(MulticlassAccuracy):
    """Examples whose label is right, in percent of all examples.

    Formula: ``100 * right / examples``
    Source: torchmetrics, https://lightning.ai/docs/torchmetrics/stable/classification/accuracy.html (micro)

    An output that is no label is wrong. Both counts are integers, so merging processes is exact.

    >>> metric = Accuracy(("ham", "spam"))
    >>> metric.update([["ham"], ["spam"]], [[["ham"]], [["ham"]]])
    >>> metric.compute().item()
    50.0
    """

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__(len(labels) + 1, average="micro", validate_args=False)
        self.labels = tuple(labels)

    def update(self, predictions: Labels, references: Sequence[Labels]) -> None:  # type: ignore[override]
        """Count a batch of outputs of one label each, and their references, of which the first counts."""
        predicted, right = label_ids(self.labels, predictions, references, self.device)
        if len(right):  # torchmetrics refuses an empty batch
            super().update(predicted, right)

    def compute(self) -> Tensor:
        """Return the percentage, a scalar."""
        return 100 * super().compute()

    def proportions(self) -> dict[str, list[Proportion]]:
        """The share of right examples."""
        right, wrong = (int(cast("Tensor", count).sum()) for count in (self.tp, self.fn))
        return {"": [Proportion(right, right + wrong)]}


@register("metric", "macro_f1")
class MacroF1(MulticlassF1Score):
    """The F1 score of each label, averaged over the labels, in percent.

    Formula: ``100 * mean over labels of 2 tp / (2 tp + fp + fn)``
    Source: torchmetrics, https://lightning.ai/docs/torchmetrics/stable/classification/f1_score.html (macro)

    Every label has the same weight, rare ones too; a label without a prediction or reference has none. An output that
    is no label is one that its right label misses.

    >>> metric = MacroF1(("ham", "spam"))
    >>> metric.update([["ham"], ["ham"], ["spam"]], [[["ham"]], [["spam"]], [["spam"]]])
    >>> round(metric.compute().item(), 2)
    66.67
    """

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__(len(labels) + 1, average="none", validate_args=False)
        self.labels = tuple(labels)

    def update(self, predictions: Labels, references: Sequence[Labels]) -> None:  # type: ignore[override]
        """Count a batch, as :meth:`Accuracy.update`."""
        predicted, right = label_ids(self.labels, predictions, references, self.device)
        if len(right):  # torchmetrics refuses an empty batch
            super().update(predicted, right)

    def compute(self) -> Tensor:
        """Return the percentage, a scalar."""
        counts = torch.stack([cast("Tensor", count) for count in (self.tp, self.fp, self.fn)])
        counted = counts.sum(0)[:-1] > 0
        return 100 * super().compute()[:-1].sum() / counted.sum()  # the score of a label that is not counted is 0


def label_ids(
    labels: Sequence[str], predictions: Labels, references: Sequence[Labels], device: torch.device
) -> tuple[Tensor, Tensor]:
    """The indices (n,) of the predicted and of the right labels; an output that is no label has their number.

    Raises:
        ValueError: the lists have unlike lengths.
        KeyError: a reference is no label.
    """
    ids = {label: index for index, label in enumerate(labels)}
    predicted = [ids.get(" ".join(output), len(labels)) for output in predictions]
    right = [ids[alternatives[0][0]] for _, alternatives in zip(predictions, references, strict=True)]
    return torch.tensor(predicted, device=device), torch.tensor(right, device=device)
