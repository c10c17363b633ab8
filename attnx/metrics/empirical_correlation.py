"""Empirical correlation of forecasts with the values that came (CORR)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.metrics.aligned_errors import Matrix
from attnx.metrics.squared_deviations import squared_deviations
from attnx.registry import Positive, register


@register("metric", "empirical_correlation")
class EmpiricalCorrelation(Metric):
    """Mean over variables of the correlation between prediction and reference (CORR).

    Formula: ``mean over i of cov(r_i, y_i) / (sd(r_i) sd(y_i)), over the steps that both have``
    Source: Lai et al. 2018, section 4.3, https://arxiv.org/abs/1703.07015

    Variables whose reference is constant are left out, as in the paper's code; a variable whose prediction is constant
    counts 0. The correlation does not depend on units. It is NaN if no reference varies.

    Args:
        columns: number of variables.

    >>> metric = EmpiricalCorrelation(columns=2)
    >>> right = np.array([[1.0, 7.0], [2.0, 7.0], [4.0, 7.0]])
    >>> metric.update([3 - 2 * right], [right])  # the second is constant
    >>> metric.compute().item()
    -1.0
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    sums: Tensor

    def __init__(self, columns: Positive) -> None:
        super().__init__()
        # Per column: the steps, the sums of predictions and references, of their squares and of their products.
        self.add_state("sums", torch.zeros(6, columns, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, predictions: Sequence[Matrix], references: Sequence[Matrix]) -> None:
        """Add a batch of matrices (t, columns), each with its reference (r, columns), in which NaN is ignored.

        Raises:
            ValueError: the two lists differ in length.
        """
        for prediction, reference in zip(predictions, references, strict=True):
            steps = min(len(prediction), len(reference))
            mask = ~np.isnan(reference[:steps])
            y, r = (np.where(mask, rows[:steps].astype(np.float64), 0) for rows in (prediction, reference))
            self.sums += torch.from_numpy(np.stack([rows.sum(0) for rows in (mask, y, r, y**2, r**2, y * r)]))

    def compute(self) -> Tensor:
        """Return the mean correlation, a scalar."""
        count, y, r, y_squares, r_squares, products = self.sums
        y_deviations, r_deviations = squared_deviations(count, y, y_squares), squared_deviations(count, r, r_squares)
        correlations = (products - y * r / count) / (y_deviations * r_deviations).sqrt()
        correlations = torch.where(y_deviations > 0, correlations, 0.0)
        return correlations[r_deviations > 0].clamp(-1, 1).mean()
