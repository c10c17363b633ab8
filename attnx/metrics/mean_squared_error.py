"""Mean squared error: how far off written numbers are, large errors above all."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.metrics.differences import Rows, differences
from attnx.registry import register


@register("metric", "mean_squared_error")
class MeanSquaredError(Metric):
    """The mean of the squared differences from the reference.

    Formula: ``sum (y - r)^2 / how many, over all numbers of the steps that both have``
    Source: as forecasting papers give it, Zhou et al. 2021, table 2, https://arxiv.org/abs/2012.07436

    All columns alike, so it is meant for scaled numbers. It is NaN before the first step.

    >>> import numpy as np
    >>> metric = MeanSquaredError()
    >>> metric.update([np.array([[1.0, 5.0]])], [np.array([[2.0, 2.0]])])
    >>> metric.compute().item()
    5.0
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    total: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, predictions: Sequence[Rows], references: Sequence[Rows]) -> None:
        """Add a batch of matrices (t, f), each with its reference (r, f).

        Raises:
            ValueError: the two lists differ in length.
        """
        found = differences(predictions, references)
        self.total += float((found * found).sum())
        self.count += len(found)

    def compute(self) -> Tensor:
        """Return the error, a scalar."""
        return self.total / self.count
