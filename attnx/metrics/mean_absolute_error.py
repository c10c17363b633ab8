"""Mean absolute error: how far off written numbers are, in the data's own units."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.metrics.differences import Rows, differences
from attnx.registry import register


@register("metric", "mean_absolute_error")
class MeanAbsoluteError(Metric):
    """How far numbers are from those of the reference, whichever way.

    Formula: ``sum |y - r| / how many, over all numbers of the steps that both have``
    Source: Willmott and Matsuura 2005, https://doi.org/10.3354/cr030079

    In the units of the data, all columns alike. Steps that only one of the two has are left out: ``length_error`` tells
    of them. It is NaN before the first step.

    >>> import numpy as np
    >>> metric = MeanAbsoluteError()
    >>> metric.update([np.array([[1.0, 5.0], [3.0, 5.0]])], [np.array([[2.0, 2.0]])])
    >>> metric.compute().item()
    2.0
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
        self.total += float(abs(found).sum())
        self.count += len(found)

    def compute(self) -> Tensor:
        """Return the error, a scalar."""
        return self.total / self.count
