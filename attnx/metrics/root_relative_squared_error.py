"""Root relative squared error (RSE) of forecasts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.metrics.aligned_errors import Matrix, aligned_errors
from attnx.metrics.squared_deviations import squared_deviations
from attnx.registry import register


@register("metric", "root_relative_squared_error")
class RootRelativeSquaredError(Metric):
    """RSE: root of the squared errors, relative to a forecast of the mean.

    Formula: ``sqrt(sum (y - r)^2) / sqrt(sum (r - mean(r))^2), over all numbers of the steps that both have``
    Source: Lai et al. 2018, section 4.3, https://arxiv.org/abs/1703.07015

    One mean serves all columns, in the data's own units, as in the paper; a forecast of the mean is at 1. It is NaN
    before the first step, and if all reference numbers are equal.

    >>> metric = RootRelativeSquaredError()
    >>> metric.update([np.array([[1.0, 4.0]])], [np.array([[1.0, 3.0]])])  # 1 over (1 + 1), the mean being 2
    >>> round(metric.compute().item(), 4)
    0.7071
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    squares: Tensor
    total: Tensor
    total_squares: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("squares", "total", "total_squares"):
            self.add_state(name, torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, predictions: Sequence[Matrix], references: Sequence[Matrix]) -> None:
        """Add a batch of matrices (t, f), each with its reference (r, f), in which NaN is ignored.

        Raises:
            ValueError: the two lists differ in length.
        """
        self.squares += float(np.square(aligned_errors(predictions, references)).sum())
        for prediction, reference in zip(predictions, references, strict=True):
            numbers = reference[: len(prediction)].astype(np.float64)
            numbers = numbers[~np.isnan(numbers)]
            self.total += float(numbers.sum())
            self.total_squares += float(np.square(numbers).sum())
            self.count += numbers.size

    def compute(self) -> Tensor:
        """Return the error, a scalar."""
        deviations = squared_deviations(self.count, self.total, self.total_squares)
        return (self.squares / deviations).sqrt() if deviations > 0 else torch.full_like(deviations, torch.nan)
