"""Metrics of forecasts, of the model and of each baseline: squared errors, RSE and CORR."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from attnx import registry
from attnx.data.features import FeatureScaler, Matrix
from attnx.metrics.additive_metric import AdditiveMetric
from attnx.metrics.aligned_errors import aligned_errors
from attnx.registry import PositiveInt, register

# Metrics of scaled numbers over all steps; in the data's units their names start with ``own_``.
ALL_STEPS_METRICS = {"mse": "mean_squared_error", "mae": "mean_absolute_error"}
MIN_RELATIVE_DEVIATION = 1e-12
"""Smaller squared deviations, relative to the sum of squares, are rounding errors."""
QUANTILE_LOSS = "quantile_loss"  # of scaled numbers, too
RSE, CORR = "rse", "corr"
"""Metrics of the last step of each window alone: Lai et al. 2018 forecast only that step."""


def forecast_metrics(
    scales: FeatureScaler, baselines: Iterable[str], quantiles: Sequence[float]
) -> dict[str, nn.Module]:
    """Build the metrics of a model, and of each baseline under its name; ``quantiles`` in their order.

    ``scales`` belong to the target columns.
    """
    metrics = _error_metrics("", scales)
    metrics |= {f"own_{name}": registry.build("metric", metric) for name, metric in ALL_STEPS_METRICS.items()}
    if quantiles:
        metrics[QUANTILE_LOSS] = registry.build("metric", "quantile_loss", quantiles=quantiles)
    for name in baselines:
        metrics |= _error_metrics(f"{name}_", scales)
    return metrics


def _error_metrics(prefix: str, scales: FeatureScaler) -> dict[str, nn.Module]:
    rse = "root_relative_squared_error", {"origin": float(np.mean(scales.mean))}
    return {
        **{f"{prefix}{name}": registry.build("metric", metric) for name, metric in ALL_STEPS_METRICS.items()},
        f"{prefix}{RSE}": registry.build("metric", rse),
        f"{prefix}{CORR}": registry.build("metric", "empirical_correlation", columns=scales.width),
    }


def update_forecast_metrics(
    metrics: Any,
    scales: FeatureScaler,
    outputs: Sequence[Matrix],
    references: Sequence[Matrix],
    baselines: Mapping[str, Sequence[Matrix]],
) -> None:
    """Update the metrics with a batch of windows, each (horizon, f).

    Outputs (maybe quantiles side by side, the median first) and references (NaN if missing) are in the data's units,
    forecasts of baselines are scaled; ``scales`` are those of the target columns.
    """
    medians = [matrix[:, : scales.width] for matrix in outputs]
    scaled_references = [scales.encode(matrix, np.nan) for matrix in references]
    forecasts: dict[str, tuple[Sequence[Matrix], Sequence[Matrix]]] = {
        "": ([scales.encode(matrix) for matrix in medians], medians)
    }
    forecasts |= {f"{name}_": (scaled, [*map(scales.decode, scaled)]) for name, scaled in baselines.items()}
    for prefix, (scaled, unscaled) in forecasts.items():
        for name in ALL_STEPS_METRICS:
            metrics[f"{prefix}{name}"].update(scaled, scaled_references)
        metrics[f"{prefix}{RSE}"].update(_last_steps(unscaled), _last_steps(references))
        metrics[f"{prefix}{CORR}"].update(_last_steps(scaled), _last_steps(scaled_references))
    for name in ALL_STEPS_METRICS:
        metrics[f"own_{name}"].update(medians, references)
    if QUANTILE_LOSS in metrics:
        metrics[QUANTILE_LOSS].update([scales.encode(matrix) for matrix in outputs], scaled_references)


def _last_steps(matrices: Iterable[Matrix]) -> list[Matrix]:
    return [matrix[-1:] for matrix in matrices]


@register("metric", "root_relative_squared_error")
class RootRelativeSquaredError(AdditiveMetric):
    """RSE: root of the squared errors, relative to a forecast of the mean.

    Formula: ``sqrt(sum (y - r)^2) / sqrt(sum (r - mean(r))^2), over all numbers of the steps that both have``
    Source: Lai et al. 2018, section 4.3, https://arxiv.org/abs/1703.07015

    One mean serves all columns, in the data's own units, as in the paper; a forecast of the mean is at 1. It is NaN
    before the first step, and if all reference numbers are equal.

    Args:
        origin: a number near the references. Squares are summed relative to it: squares of large numbers would lose
            the digits of small changes.

    >>> metric = RootRelativeSquaredError()
    >>> metric.update([np.array([[1.0, 4.0]])], [np.array([[1.0, 3.0]])])  # 1 over (1 + 1), the mean being 2
    >>> round(metric.compute().item(), 4)
    0.7071
    """

    def __init__(self, origin: float = 0.0) -> None:
        super().__init__(4)
        self.origin = origin

    def terms(self, prediction: Matrix, reference: Matrix) -> tuple[float, ...]:
        """Return the squared errors of matrices (t, f) and (r, f); count, sum and squares of the numbers compared."""
        errors = aligned_errors([prediction], [reference])
        numbers = reference[: len(prediction)].astype(np.float64) - self.origin
        numbers = numbers[~np.isnan(numbers)]
        return np.square(errors).sum(), numbers.size, numbers.sum(), np.square(numbers).sum()

    def compute(self) -> Tensor:
        """Return the error, a scalar."""
        errors, count, total, squares = self.sums
        deviations = _squared_deviations(count, total, squares)
        return torch.where(deviations > 0, errors / deviations, torch.nan).sqrt()


@register("metric", "empirical_correlation")
class EmpiricalCorrelation(AdditiveMetric):
    """Mean over variables of the correlation between prediction and reference (CORR).

    Formula: ``mean over i of cov(r_i, y_i) / (sd(r_i) sd(y_i)), over the steps that both have``
    Source: Lai et al. 2018, section 4.3, https://arxiv.org/abs/1703.07015

    Variables whose reference is constant are left out, as in the paper's code; a variable whose prediction is constant
    counts 0. The correlation does not depend on units. It is NaN if no reference varies.

    >>> metric = EmpiricalCorrelation(columns=2)
    >>> right = np.array([[1.0, 7.0], [2.0, 7.0], [4.0, 7.0]])
    >>> metric.update([3 - 2 * right], [right])  # the second is constant
    >>> metric.compute().item()
    -1.0
    """

    higher_is_better = True

    def __init__(self, columns: PositiveInt) -> None:
        super().__init__(6, columns)

    def terms(self, prediction: Matrix, reference: Matrix) -> npt.NDArray[np.float64]:
        """Return sums over the steps of matrices (t, columns) and (r, columns); NaN in the reference is ignored."""
        steps = min(len(prediction), len(reference))
        mask = ~np.isnan(reference[:steps])
        y, r = (np.where(mask, rows[:steps].astype(np.float64), 0) for rows in (prediction, reference))
        return np.stack([rows.sum(0) for rows in (mask, y, y**2, r, r**2, y * r)])

    def compute(self) -> Tensor:
        """Return the mean correlation, a scalar."""
        count, y, y_squares, r, r_squares, products = self.sums
        y_deviations, r_deviations = _squared_deviations(count, y, y_squares), _squared_deviations(count, r, r_squares)
        correlations = (products - y * r / count) / (y_deviations * r_deviations).sqrt()
        correlations = torch.where(y_deviations > 0, correlations, 0.0)
        return torch.where(r_deviations > 0, correlations.clamp(-1, 1), torch.nan).nanmean()


def _squared_deviations(count: Tensor, total: Tensor, squares: Tensor) -> Tensor:
    """Sum of squared deviations from the mean, from a count, a sum and a sum of squares; 0 for equal numbers."""
    deviations = squares - total**2 / count
    return torch.where(deviations > MIN_RELATIVE_DEVIATION * squares, deviations, 0.0)
