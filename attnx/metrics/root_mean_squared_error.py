"""Root mean squared error: how far off written numbers are, in the data's own units, the worst counting most."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.metrics.differences import Rows, differences
from attnx.registry import register


@register("metric", "root_mean_squared_error")
class RootMeanSquaredError(Metric):
    """How far numbers are from those of the reference, one that is far off counting more than several that are near.

    Formula: ``sqrt(sum (y - r)^2 / how many), over all numbers of the steps that both have``
    Source: Chai and Draxler 2014, https://doi.org/10.5194/gmd-7-1247-2014

    In the units of the data, all columns alike. Steps that only one of the two has are left out: ``length_error`` tells
    of them. It is NaN before the first step.

    >>> import numpy as np
    >>> metric = RootMeanSquaredError()
    >>> metric.update([np.array([[1.0, 9.0]])], [np.array([[2.0, 2.0], [3.0, 3.0]])])
    >>> metric.compute().item()
    5.0
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    squares: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("squares", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, predictions: Sequence[Rows], references: Sequence[Rows]) -> None:
        """Add a batch of matrices (t, f), each with its reference (r, f).

        Raises:
            ValueError: the two lists differ in length.
        """
        found = differences(predictions, references)
        self.squares += float(found @ found)
        self.count += len(found)

    def compute(self) -> Tensor:
        """Return the error, a scalar."""
        return (self.squares / self.count).sqrt()
