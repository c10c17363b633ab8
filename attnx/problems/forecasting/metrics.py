"""Metrics of forecasts: of the model and, on the same windows, of each baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from attnx import registry
from attnx.data.features import FeatureScaler, Matrix

# Metrics of scaled numbers over all steps; in the data's units their names start with ``own_``.
ALL_STEPS_METRICS = {"mse": "mean_squared_error", "mae": "mean_absolute_error"}
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
        metrics["quantile_loss"] = registry.build("metric", "quantile_loss", quantiles=quantiles)
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

    Args:
        metrics: from :func:`forecast_metrics`.
        scales: of the target columns.
        outputs: in the data's units, maybe several quantiles side by side, the median first.
        references: in the data's units; missing values are NaN.
        baselines: scaled forecasts of each baseline.
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
    if "quantile_loss" in metrics:
        metrics["quantile_loss"].update([scales.encode(matrix) for matrix in outputs], scaled_references)


def _last_steps(matrices: Iterable[Matrix]) -> list[Matrix]:
    return [matrix[-1:] for matrix in matrices]
