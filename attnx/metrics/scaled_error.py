"""Scaled error of predicted matrices of any units and lengths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.metrics.aligned_errors import Matrix
from attnx.registry import register


@register("metric", "scaled_error")
class ScaledError(Metric):
    """Root mean squared error of scaled numbers; missing and surplus steps count as errors.

    Formula: ``sqrt(sum ((y - r) / s)^2 / numbers in the references), y or r = m where a step is missing``
    Source: after the scaled errors of Hyndman and Koehler 2006, https://doi.org/10.1016/j.ijforecast.2006.03.001

    m and s are the mean and the standard deviation of each column in training. Predicting m at every step, or nothing,
    scores about 1; a perfect prediction scores 0. The shorter of prediction and reference is padded with m. The sum is
    over the longer one, divided by the numbers in the references, so stopping early gains nothing. It is NaN before the
    first step.

    Args:
        mean: of each column.
        scale: of each column.

    >>> metric = ScaledError(mean=[5.0], scale=[2.0])
    >>> metric.update([np.array([[7.0]])], [np.array([[7.0], [1.0]])])  # (1, 0) against (1, -2)
    >>> round(metric.compute().item(), 3)  # sqrt((0 + 4) / 2)
    1.414
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    squares: Tensor
    count: Tensor

    def __init__(self, mean: Sequence[float], scale: Sequence[float]) -> None:
        super().__init__()
        self.mean, self.scale = np.array(mean), np.array(scale)
        self.add_state("squares", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, predictions: Sequence[Matrix], references: Sequence[Matrix]) -> None:
        """Add a batch of matrices (t, f) in the data's own units, each with its reference (r, f).

        Raises:
            ValueError: the two lists differ in length.
        """
        for prediction, reference in list(zip(predictions, references, strict=True)):
            error = np.zeros((max(len(prediction), len(reference)), len(self.mean)))
            error[: len(prediction)] += (prediction - self.mean) / self.scale
            error[: len(reference)] -= (reference - self.mean) / self.scale
            self.squares += float(np.square(error).sum())
            self.count += reference.size

    def compute(self) -> Tensor:
        """Return the error, a scalar."""
        return (self.squares / self.count).sqrt()
