"""Empirical correlation: how far forecasts of each variable go along with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.metrics.aligned_errors import Rows
from attnx.metrics.spread import spread
from attnx.registry import Positive, register


@register("metric", "empirical_correlation")
class EmpiricalCorrelation(Metric):
    """CORR: the correlation of what was written with what is right, of each variable, and the mean over variables.

    Formula: ``mean over i of cov(r_i, y_i) / (sd(r_i) sd(y_i)), over the steps that both have``
    Source: Lai et al. 2018, section 4.3, https://arxiv.org/abs/1703.07015

    Variables that never change in what is right are left out, as in the paper's code; one that is always written alike
    correlates with nothing and counts 0. It is the same in any units. Without any variable that changes it is NaN.

    Args:
        columns: how many variables there are.

    >>> metric = EmpiricalCorrelation(columns=2)
    >>> right = np.array([[1.0, 7.0], [2.0, 7.0], [4.0, 7.0]])
    >>> metric.update([3 - 2 * right], [right])  # the second never changes
    >>> metric.compute().item()
    -1.0
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    sums: Tensor

    def __init__(self, columns: Positive) -> None:
        super().__init__()
        # Of each column how many steps, the sums of what was written and what is right, of their squares and products.
        self.add_state("sums", torch.zeros(6, columns, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, predictions: Sequence[Rows], references: Sequence[Rows]) -> None:
        """Add a batch of matrices (t, columns), each with its reference (r, columns), of which NaN counts nothing.

        Raises:
            ValueError: the two lists differ in length.
        """
        for one, other in zip(predictions, references, strict=True):
            steps = min(len(one), len(other))
            there = ~np.isnan(other[:steps])
            written, right = (np.where(there, part[:steps].astype(np.float64), 0) for part in (one, other))
            parts = [there, written, right, written**2, right**2, written * right]
            self.sums += torch.from_numpy(np.stack([part.sum(0) for part in parts]))

    def compute(self) -> Tensor:
        """Return the mean correlation, a scalar."""
        count, written, right, written_squares, right_squares, products = self.sums
        around_written, around_right = spread(count, written, written_squares), spread(count, right, right_squares)
        covariance = products - written * right / count
        correlations = covariance / (around_written * around_right).sqrt()
        correlations = torch.where(around_written > 0, correlations, 0.0)
        return correlations[around_right > 0].clamp(-1, 1).mean()
