"""Errors of predicted numbers: MAE, MSE, RMSE, the scaled error, the quantile loss, and the error of lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnx.metrics.additive_metric import RatioMetric
from attnx.metrics.aligned_errors import Matrix, aligned_errors
from attnx.registry import register


class MeanError(RatioMetric):
    """Mean ``cost`` of the errors, over all numbers of the steps that both have; ``finish`` maps it to the metric."""

    def __init__(self, cost: np.ufunc, finish: Callable[[Tensor], Tensor] = torch.clone) -> None:
        super().__init__()
        self.cost, self.finish = cost, finish

    def terms(self, prediction: Matrix, reference: Matrix) -> tuple[float, int]:
        """Return the cost of matrices (t, f) and (r, f), and how many numbers are compared."""
        errors = aligned_errors([prediction], [reference])
        return self.cost(errors).sum(), errors.size

    def compute(self) -> Tensor:
        """Return the error, a scalar."""
        return self.finish(super().compute())


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


@register("metric", "scaled_error")
class ScaledError(RatioMetric):
    """Root mean squared error of scaled numbers; missing and surplus steps count as errors.

    Formula: ``sqrt(sum ((y - r) / s)^2 / numbers in the references), y or r = m where a step is missing``
    Source: after the scaled errors of Hyndman and Koehler 2006, https://doi.org/10.1016/j.ijforecast.2006.03.001

    m and s are the mean and the standard deviation of each column in training. Predicting m at every step, or nothing,
    scores about 1; a perfect prediction scores 0. The shorter of prediction and reference is padded with m. The sum is
    over the longer one, divided by the numbers in the references, so stopping early gains nothing. It is NaN before the
    first step.

    >>> metric = ScaledError(mean=[5.0], scale=[2.0])
    >>> metric.update([np.array([[7.0]])], [np.array([[7.0], [1.0]])])  # (1, 0) against (1, -2)
    >>> round(metric.compute().item(), 3)  # sqrt((0 + 4) / 2)
    1.414
    """

    def __init__(self, mean: Sequence[float], scale: Sequence[float]) -> None:
        super().__init__()
        self.mean, self.scale = np.array(mean), np.array(scale)

    def terms(self, prediction: Matrix, reference: Matrix) -> tuple[float, int]:
        """Return the squared errors of matrices (t, f) and (r, f) in the data's units, and the reference's size."""
        error = np.zeros((max(len(prediction), len(reference)), len(self.mean)))
        error[: len(prediction)] += (prediction - self.mean) / self.scale
        error[: len(reference)] -= (reference - self.mean) / self.scale
        return np.square(error).sum(), reference.size

    def compute(self) -> Tensor:
        """Return the error, a scalar."""
        return super().compute().sqrt()


@register("metric", "quantile_loss")
class QuantileLoss(RatioMetric):
    """Mean quantile loss (pinball loss) over quantiles, steps and columns.

    Formula: ``mean max(q e, (q - 1) e), e = r - y_q``
    Source: Koenker and Bassett 1978, https://doi.org/10.2307/1913643

    For the median alone it is half the mean absolute error. It is NaN before the first step.

    Args:
        quantiles: in the order of their blocks of columns in a prediction.

    >>> metric = QuantileLoss(quantiles=[0.5, 0.9])
    >>> metric.update([np.array([[3.0, 5.0]])], [np.array([[4.0]])])  # 0.5 * 1 and 0.1 * 1
    >>> round(metric.compute().item(), 3)
    0.3
    """

    def __init__(self, quantiles: Sequence[float]) -> None:
        super().__init__()
        self.quantiles = np.array(quantiles)[:, None]

    def terms(self, prediction: Matrix, reference: Matrix) -> tuple[float, int]:
        """Return the loss of a matrix (t, quantiles * f) for (t, f), in which NaN is ignored, and how many it sums."""
        errors = reference[:, None, :] - prediction.reshape(len(prediction), len(self.quantiles), -1)
        losses = np.maximum(self.quantiles * errors, (self.quantiles - 1) * errors).sum(1)
        is_measured = ~np.isnan(reference)
        return losses[is_measured].sum(), len(self.quantiles) * is_measured.sum()


@register("metric", "length_error")
class LengthError(RatioMetric):
    """Mean number of steps by which a prediction is too long or too short.

    Formula: ``sum |steps of the prediction - steps of the reference| / sequences``
    Source: a mean absolute error, Willmott and Matsuura 2005, https://doi.org/10.3354/cr030079

    The metrics of numbers ignore these steps. It is NaN before the first sequence. Both sums are integers, so merging
    processes is exact.

    >>> metric = LengthError()
    >>> metric.update([[1, 2, 3], [5]], [[1], [7, 7]])
    >>> metric.compute().item()
    1.5
    """

    sums_dtype = torch.int64

    def terms(self, prediction: Sequence[Any], reference: Sequence[Any]) -> tuple[int, int]:
        """Return the difference of the lengths, and 1."""
        return abs(len(prediction) - len(reference)), 1
