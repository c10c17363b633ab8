"""Quantile loss (pinball loss) of forecast quantiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.metrics.aligned_errors import Matrix
from attnx.registry import register


@register("metric", "quantile_loss")
class QuantileLoss(Metric):
    """Mean quantile loss over quantiles, steps and columns.

    Formula: ``mean max(q e, (q - 1) e), e = r - y_q``
    Source: Koenker and Bassett 1978, https://doi.org/10.2307/1913643

    For the median alone it is half the mean absolute error. It is NaN before the first step.

    Args:
        quantiles: in the order of their blocks of columns in a prediction.

    >>> metric = QuantileLoss(quantiles=[0.5, 0.9])
    >>> metric.update([np.array([[3.0, 5.0]])], [np.array([[4.0]])])  # 0.5 * 1 and 0.1 * 1
    >>> round(metric.compute().item(), 3)
    0.3
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    total: Tensor
    count: Tensor

    def __init__(self, quantiles: Sequence[float]) -> None:
        super().__init__()
        self.quantiles = np.array(quantiles)[:, None]
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, predictions: Sequence[Matrix], references: Sequence[Matrix]) -> None:
        """Add a batch of matrices (t, quantiles * f), each with its reference (t, f), in which NaN is ignored.

        Raises:
            ValueError: the two lists differ in length.
        """
        for prediction, reference in zip(predictions, references, strict=True):
            errors = reference[:, None, :] - prediction.reshape(len(prediction), len(self.quantiles), -1)
            losses = np.maximum(self.quantiles * errors, (self.quantiles - 1) * errors).sum(1)
            valid_mask = ~np.isnan(reference)
            self.total += float(losses[valid_mask].sum())
            self.count += len(self.quantiles) * int(valid_mask.sum())

    def compute(self) -> Tensor:
        """Return the loss, a scalar."""
        return self.total / self.count
