"""Draws forecasts of a few test windows: past, truth and forecast per column, and attention weights below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnx.data.evenly_spaced import evenly_spaced_indices
from attnx.files.bounded_files import read_arrays
from attnx.reports.figures.curves import DPI, INK, PALE, PREDICTION_COLOR, REFERENCE_COLOR, style_axes
from attnx.reports.figures.fonts import choose_fonts, shorten
from attnx.reports.figures.heatmaps import WHITE_TO_BLUE, Format, save_figure
from attnx.runs.alignments import read_best_alignments
from attnx.runs.layout import MATRICES, PREDICTIONS, VOCABULARY
from attnx.runs.predictions import read_field, read_table
from attnx.runs.run import read_run

from .series import Series, read_test_series

MAX_WINDOWS, MAX_COLUMNS = 3, 4
MAX_LABEL_LENGTH, MAX_TITLE_LENGTH = 20, 50
PAST_COLOR = "#333333"

Matrix = npt.NDArray[np.floating]


class Forecast(NamedTuple):
    """One test window, named by its series, if there are several, and its first forecast step."""

    name: str
    past: Matrix  # (lookback, f)
    truth: Matrix  # (horizon, f)
    forecast: Matrix  # (q, horizon, f) the mean or the median, then the remaining quantiles in ascending order
    # (horizon, lookback + horizon) weight of each step on each state before it; None without weights
    attention: Matrix | None


def draw_forecasts(folder: Path | str, form: Format = "png") -> list[Path]:
    """Write forecasts.png, or .svg or .pdf, from the files of a run; no picture if it saved no test series."""
    folder = Path(folder)
    series = read_test_series(folder / VOCABULARY)
    if not series or not (folder / MATRICES).is_file():
        return []
    forecasts = read_forecasts(folder, read_run(folder).config["task"], series)
    if not forecasts:
        return []
    page = draw_forecast_page(forecasts, series[0].columns[:MAX_COLUMNS])
    return [save_figure(page, folder / f"forecasts.{form}")]


def draw_forecast_page(forecasts: Sequence[Forecast], columns: Sequence[str]) -> Figure:
    """Draw a column of panels per window: one for each column of the series, and the attention weights below."""
    has_attention = any(forecast.attention is not None for forecast in forecasts)
    rows = len(columns) + has_attention
    fonts = choose_fonts("".join([*(forecast.name for forecast in forecasts), *columns]))
    style: dict[str, Any] = {"parse_math": False, "fontfamily": fonts.families, "color": INK}
    figure = Figure(figsize=(3.9 * len(forecasts) + 0.6, 1.5 * rows + 0.9), dpi=DPI)
    figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.06)
    panels = figure.subplots(rows, len(forecasts), squeeze=False, sharex="col")
    for forecast, window in zip(forecasts, panels.T, strict=True):
        for column in range(len(columns)):
            _draw_column(window[column], forecast, column)
        if has_attention:
            _draw_attention(window[-1], forecast)
        title = shorten(fonts.display(forecast.name).replace("␣", " "), MAX_TITLE_LENGTH)
        window[0].set_title(title, loc="left", fontsize=9, **style)
        window[-1].set_xlabel("steps from the first forecast step", fontsize=8, color=INK)
    for axes, name in zip(panels[:, 0], columns, strict=False):
        axes.set_ylabel(shorten(fonts.display(name), MAX_LABEL_LENGTH), fontsize=9, **style)
    if has_attention:
        panels[-1][0].set_ylabel("forecast step", fontsize=8, color=INK)
    figure.align_ylabels()
    lines = panels[0][0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside upper right", ncols=5, frameon=False, fontsize=8)
    return figure


def _draw_column(axes: Axes, forecast: Forecast, column: int) -> None:
    """Draw the past, and from its last value on the truth and the forecast."""
    steps = np.arange(len(forecast.truth))
    past, truth = forecast.past[:, column], forecast.truth[:, column]
    median, *quantiles = forecast.forecast[..., column]
    for index, (low, high) in enumerate(zip(quantiles[: len(quantiles) // 2], quantiles[::-1], strict=False)):
        label = "" if index else "between quantiles"
        axes.fill_between(steps, low, high, color=PREDICTION_COLOR, alpha=0.18, linewidth=0, label=label)
    axes.plot(np.arange(-len(past), 0), past, color=PAST_COLOR, linewidth=1.1, label="past")
    axes.plot([-1, *steps], [past[-1], *truth], color=REFERENCE_COLOR, linewidth=2.0, label="truth")
    axes.plot(steps, median, color=PREDICTION_COLOR, linewidth=1.5, label="forecast")
    axes.axvline(-0.5, color=PALE, linewidth=1)
    axes.margins(x=0.01)
    style_axes(axes, label_size=7)
    axes.spines["bottom"].set_visible(False)


def _draw_attention(axes: Axes, forecast: Forecast) -> None:
    """Draw each forecast step's weights over the same time axis, white for zero."""
    if forecast.attention is None:
        axes.set_axis_off()
        return
    horizon, largest = len(forecast.truth), forecast.attention.max()
    edges = np.arange(-len(forecast.past), horizon + 1) - 0.5
    scale: dict[str, Any] = {"cmap": WHITE_TO_BLUE, "vmin": 0, "vmax": largest or 1}
    axes.pcolormesh(edges, np.arange(horizon + 1), forecast.attention, rasterized=True, **scale)
    axes.set_ylim(horizon, 0)
    axes.axvline(-0.5, color=REFERENCE_COLOR, linewidth=0.8)
    axes.set_title(f"attention weights, darkest {largest:.2g}", loc="left", fontsize=8, color=INK)
    axes.spines[:].set_color(PALE)
    axes.tick_params(length=0, labelsize=7, labelcolor=INK)


def read_forecasts(folder: Path, task: Mapping[str, Any], series: Sequence[Series]) -> list[Forecast]:
    """Read a few test windows, evenly in time, of those with saved weights if there are any."""
    rows = {read_field(row["name"]): row for row in read_table(folder / PREDICTIONS)[1]}
    alignments = {best.name: best for best in read_best_alignments(folder)}
    starts = {f"{item.name} {label}".strip(): (item, step) for item in series for step, label in enumerate(item.labels)}
    names = [name for name in starts if name in rows and (not alignments or name in alignments)]
    names = [names[index] for index in evenly_spaced_indices(len(names), MAX_WINDOWS)]
    sides = ("prediction", "reference")
    arrays = read_arrays(folder / MATRICES, [rows[name][side] for name in names for side in sides])
    forecasts = []
    for name in names:
        prediction, truth = (arrays[rows[name][side]] for side in sides)
        quantiles = np.stack(np.split(prediction, prediction.shape[1] // truth.shape[1], axis=1))
        window, start = starts[name]
        past = window.numbers[max(start - task["lookback"], 0) : start]
        attention = None
        if (alignment := alignments.get(name)) is not None:
            # (t, m) -> (horizon, past + horizon): decoder states are at the steps that they predicted.
            states, source = alignment.num_decoder_states, len(alignment.source_symbols)
            attention = np.zeros((len(truth), len(past) + len(truth)))
            attention[:, :source] += alignment.weights[:, :source]
            attention[:, len(past) : len(past) + states] += alignment.weights[:, source:]
        forecasts.append(Forecast(name, past, truth, quantiles, attention))
    return forecasts
