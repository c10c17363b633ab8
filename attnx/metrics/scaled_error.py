"""Scaled error: one number for matrices of any units and lengths, 1 for what writes the mean and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.metrics.aligned_errors import Rows
from attnx.registry import register


@register("metric", "scaled_error")
class ScaledError(Metric):
    """Root mean squared error of scaled numbers, in which a step that is missing counts, and so does one too many.

    Formula: ``sqrt(sum ((y - r) / s)^2 / numbers in the references), y or r = m where a step is missing``
    Source: after the scaled errors of Hyndman and Koehler 2006, https://doi.org/10.1016/j.ijforecast.2006.03.001

    m and s are the mean and the deviation of each column in training. What writes m at every step, and what writes
    nothing, is at about 1; to be right is 0. Nothing is won by stopping early, nor by going on: whichever of the two is
    shorter goes on with m, and the sum is over the longer one, but it is divided by what the references hold. It is NaN
    before the first step.

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

    def update(self, predictions: Sequence[Rows], references: Sequence[Rows]) -> None:
        """Add a batch of matrices (t, f) in the data's own units, each with its reference (r, f).

        Raises:
            ValueError: the two lists differ in length.
        """
        pairs = list(zip(predictions, references, strict=True))
        for written, reference in pairs:
            error = np.zeros((max(len(written), len(reference)), len(self.mean)))
            error[: len(written)] += (written - self.mean) / self.scale
            error[: len(reference)] -= (reference - self.mean) / self.scale
            self.squares += float(np.square(error).sum())
            self.count += reference.size

    def compute(self) -> Tensor:
        """Return the error, a scalar."""
        return (self.squares / self.count).sqrt()
