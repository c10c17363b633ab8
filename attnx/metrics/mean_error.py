"""Mean errors of predicted numbers: MAE, MSE and RMSE."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from attnx.metrics.aligned_errors import Matrix, aligned_errors
from attnx.registry import register


class MeanError(Metric):
    """Mean of a function of the errors, over all numbers of the steps that both have; NaN before the first step.

    Args:
        cost: maps each error to its cost.
        finish: maps the mean cost to the metric.
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

    def update(self, predictions: Sequence[Matrix], references: Sequence[Matrix]) -> None:
        """Add a batch of matrices (t, f), each with its reference (r, f).

        Raises:
            ValueError: the two lists differ in length.
        """
        errors = aligned_errors(predictions, references)
        self.total += float(self.cost(errors).sum())
        self.count += len(errors)

    def compute(self) -> Tensor:
        """Return the error, a scalar."""
        return self.finish(self.total / self.count)


@register("metric", "mean_absolute_error")
def mean_absolute_error() -> MeanError:
    """Mean absolute error (MAE) over all numbers of the steps that both have.

    Formula: ``sum |y - r| / n``
    Source: Willmott and Matsuura 2005, https://doi.org/10.3354/cr030079

    In the units of the data, all columns alike. Steps that only one of the two has are left out; ``length_error``
    counts them. It is NaN before the first step.

    >>> metric = mean_absolute_error()
    >>> metric.update([np.array([[1.0, 5.0], [3.0, 5.0]])], [np.array([[2.0, 2.0]])])
    >>> metric.compute().item()
    2.0
    """
    return MeanError(np.abs)


@register("metric", "mean_squared_error")
def mean_squared_error() -> MeanError:
    """Mean squared error (MSE) over all numbers of the steps that both have.

    Formula: ``sum (y - r)^2 / n``
    Source: as forecasting papers report it, Zhou et al. 2021, table 2, https://arxiv.org/abs/2012.07436

    All columns count alike, so it is meant for scaled numbers. It is NaN before the first step.

    >>> metric = mean_squared_error()
    >>> metric.update([np.array([[1.0, 5.0]])], [np.array([[2.0, 2.0]])])
    >>> metric.compute().item()
    5.0
    """
    return MeanError(np.square)


@register("metric", "root_mean_squared_error")
def root_mean_squared_error() -> MeanError:
    """Root mean squared error (RMSE): large errors count more than in the mean absolute error.

    Formula: ``sqrt(sum (y - r)^2 / n)``
    Source: Chai and Draxler 2014, https://doi.org/10.5194/gmd-7-1247-2014

    In the units of the data, all columns alike. Steps that only one of the two has are left out; ``length_error``
    counts them. It is NaN before the first step.

    >>> metric = root_mean_squared_error()
    >>> metric.update([np.array([[1.0, 9.0]])], [np.array([[2.0, 2.0], [3.0, 3.0]])])
    >>> metric.compute().item()
    5.0
    """
    return MeanError(np.square, torch.sqrt)
