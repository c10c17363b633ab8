"""What a forecast is measured by: of a model and, on the same windows, of each forecast that costs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from attnx import registry
from attnx.data.features import Features, Matrix

# Of scaled numbers over all steps; in the data's own units their names begin with ``own_``.
OF_ALL_STEPS = {"mse": "mean_squared_error", "mae": "mean_absolute_error"}
RSE, CORR = "rse", "corr"
"""Of the last step of each window alone: Lai et al. 2018 forecast one step, so far ahead, and no other."""


def forecast_metrics(columns: int, baselines: Iterable[str], quantiles: Sequence[float]) -> dict[str, nn.Module]:
    """The metrics of a model and, behind its name, of each baseline; of quantiles in their order, if there are any."""
    found = _errors("", columns)
    found |= {f"own_{name}": registry.build("metric", metric) for name, metric in OF_ALL_STEPS.items()}
    if quantiles:
        found["quantile_loss"] = registry.build("metric", "quantile_loss", quantiles=quantiles)
    for name in baselines:
        found |= _errors(f"{name}_", columns)
    return found


def _errors(who: str, columns: int) -> dict[str, nn.Module]:
    """What a model and each baseline are measured by."""
    return {
        **{f"{who}{name}": registry.build("metric", metric) for name, metric in OF_ALL_STEPS.items()},
        f"{who}{RSE}": registry.build("metric", "root_relative_squared_error"),
        f"{who}{CORR}": registry.build("metric", "empirical_correlation", columns=columns),
    }


def update_forecast_metrics(
    metrics: Any,
    scales: Features,
    written: Sequence[Matrix],
    right: Sequence[Matrix],
    baselines: Mapping[str, Sequence[Matrix]],
) -> None:
    """Show the metrics a batch.

    Args:
        metrics: those of :func:`forecast_metrics`.
        scales: of the columns that are forecast.
        written: of each window (horizon, f) in the data's units, or several quantiles side by side, the median first.
        right: of each window (horizon, f) in the data's units, NaN where nothing was measured.
        baselines: what each of them forecast of the windows, (horizon, f), scaled.
    """
    medians = [matrix[:, : scales.width] for matrix in written]
    wanted = [scales.encode(matrix, np.nan) for matrix in right]
    forecasts: dict[str, tuple[Sequence[Matrix], Sequence[Matrix]]] = {
        "": ([scales.encode(matrix) for matrix in medians], medians)
    }
    forecasts |= {f"{name}_": (found, [*map(scales.decode, found)]) for name, found in baselines.items()}
    for who, (scaled, own) in forecasts.items():
        for name in OF_ALL_STEPS:
            metrics[f"{who}{name}"].update(scaled, wanted)
        metrics[f"{who}{RSE}"].update(_last(own), _last(right))
        metrics[f"{who}{CORR}"].update(_last(scaled), _last(wanted))
    for name in OF_ALL_STEPS:
        metrics[f"own_{name}"].update(medians, right)
    if "quantile_loss" in metrics:
        metrics["quantile_loss"].update([scales.encode(matrix) for matrix in written], wanted)


def _last(matrices: Iterable[Matrix]) -> list[Matrix]:
    """The last step of each."""
    return [matrix[-1:] for matrix in matrices]
