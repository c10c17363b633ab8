"""What measures of numbers share: the mean of what differences cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.metrics.aligned_errors import Rows, differences


class MeanCost(Metric):
    """The mean of what differences cost, over all numbers of the steps that both have; NaN before the first step.

    Args:
        cost: of differences, each by itself.
        finish: what becomes of the mean.
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    total: Tensor
    count: Tensor

    def __init__(self, cost: np.ufunc, finish: Callable[[Tensor], Tensor] = torch.clone) -> None:
        super().__init__()
        self.cost, self.finish = cost, finish
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, predictions: Sequence[Rows], references: Sequence[Rows]) -> None:
        """Add a batch of matrices (t, f), each with its reference (r, f).

        Raises:
            ValueError: the two lists differ in length.
        """
        found = differences(predictions, references)
        self.total += float(self.cost(found).sum())
        self.count += len(found)

    def compute(self) -> Tensor:
        """Return the error, a scalar."""
        return self.finish(self.total / self.count)
