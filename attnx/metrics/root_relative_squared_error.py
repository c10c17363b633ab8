"""Root relative squared error: how far off forecasts are, beside a forecast of nothing but the mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.metrics.aligned_errors import Rows, differences
from attnx.metrics.spread import spread
from attnx.registry import register


@register("metric", "root_relative_squared_error")
class RootRelativeSquaredError(Metric):
    """RSE: the root of the squared errors over that of the distances from the mean of all that is right.

    Formula: ``sqrt(sum (y - r)^2) / sqrt(sum (r - mean(r))^2), over all numbers of the steps that both have``
    Source: Lai et al. 2018, section 4.3, https://arxiv.org/abs/1703.07015

    One mean for all columns, so it is of numbers in the data's own units, as there; 1 is what the mean alone would be
    at. It is NaN before the first step, and where all that is right is one number.

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
        for sums in ("squares", "total", "total_squares"):
            self.add_state(sums, torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, predictions: Sequence[Rows], references: Sequence[Rows]) -> None:
        """Add a batch of matrices (t, f), each with its reference (r, f), of which NaN counts nothing.

        Raises:
            ValueError: the two lists differ in length.
        """
        self.squares += float(np.square(differences(predictions, references)).sum())
        for one, other in zip(predictions, references, strict=True):
            right = other[: len(one)].astype(np.float64)
            right = right[~np.isnan(right)]
            self.total += float(right.sum())
            self.total_squares += float(np.square(right).sum())
            self.count += right.size

    def compute(self) -> Tensor:
        """Return the error, a scalar."""
        around = spread(self.count, self.total, self.total_squares)
        return (self.squares / around).sqrt() if around > 0 else torch.full_like(around, torch.nan)
