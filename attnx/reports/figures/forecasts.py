"""Draws forecasts: for some of the test what was before, what was right, what was forecast; below, what was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnx.data.readers.series import Series
from attnx.data.series_file import read_kept_series
from attnx.files.bounded_arrays import read_arrays
from attnx.reports.figures.curves import DPI, INK, PALE
from attnx.reports.figures.fonts import Lettering, lettering_for
from attnx.reports.figures.heatmaps import WHITE_TO_BLUE
from attnx.reports.figures.numeric_predictions import RIGHT, WRITTEN
from attnx.runs.alignments import Alignment, read_examples
from attnx.runs.layout import FORECASTS_PICTURE, MATRICES, PREDICTIONS, VOCABULARY
from attnx.runs.predictions import read_table
from attnx.runs.run import read_run
from attnx.runs.table_fields import read_field

# At most so many windows side by side, and so many columns of each below one another.
SHOWN, COLUMNS = 3, 4
PICTURE = FORECASTS_PICTURE
PAST = "#333333"

Matrix = npt.NDArray[np.floating]


class Forecast(NamedTuple):
    """One window of the test.

    Attributes:
        name: its series, if there are several, and its first forecast step.
        past: (lookback, f).
        right: (horizon, f).
        forecast: (q, horizon, f) the mean or the median, then the other quantiles, from low to high.
        read: (horizon, lookback + horizon) how much each step read of each state before it; None without weights.
    """

    name: str
    past: Matrix
    right: Matrix
    forecast: Matrix
    read: Matrix | None


def draw_forecasts(folder: Path | str) -> Path | None:
    """Write forecasts.png from what a run has kept and return its path; None if it forecast nothing."""
    folder = Path(folder)
    task = read_run(folder).config.get("task", {})
    kept = read_kept_series(folder / VOCABULARY)
    if "horizon" not in task or not kept or not (folder / MATRICES).is_file():
        return None
    found = _forecasts(folder, task, kept)
    if not found:
        return None
    page(found, kept[0].columns[:COLUMNS]).savefig(folder / PICTURE)
    return folder / PICTURE


def page(found: Sequence[Forecast], columns: Sequence[str]) -> Figure:
    """A column of panels a window: one for each of the series' columns, and below them what was read."""
    attended = any(one.read is not None for one in found)
    heights = [1.5] * len(columns) + [1.5] * attended
    lettering = lettering_for("".join([*(one.name for one in found), *columns]))
    style: dict[str, Any] = {"parse_math": False, "fontfamily": lettering.families, "color": INK}
    figure = Figure(figsize=(3.9 * len(found) + 0.6, sum(heights) + 0.9), dpi=DPI)
    figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.06)
    panels = figure.subplots(
        len(heights), len(found), squeeze=False, sharex="col", gridspec_kw={"height_ratios": heights}
    )
    for place, one in enumerate(found):
        for number in range(len(columns)):
            _draw_column(panels[number][place], one, number)
        if attended:
            _draw_read(panels[-1][place], one)
        panels[0][place].set_title(lettering.shown(one.name).replace("␣", " "), loc="left", fontsize=9, **style)
        panels[-1][place].set_xlabel("steps from the first that is forecast", fontsize=8, color=INK)
    _label(panels, columns, lettering, style, attended)
    figure.align_ylabels()
    lines = panels[0][0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside upper right", ncols=5, frameon=False, fontsize=8)
    return figure


def _label(panels: Any, columns: Sequence[str], lettering: Lettering, style: Mapping[str, Any], attended: bool) -> None:
    for number, column in enumerate(columns):
        panels[number][0].set_ylabel(lettering.shown(column), fontsize=9, **style)
    if attended:
        panels[-1][0].set_ylabel("step that read", fontsize=8, color=INK)


def _draw_column(axes: Axes, one: Forecast, number: int) -> None:
    """The past up to its last value, and from there what was right and what was forecast."""
    steps = np.arange(len(one.right))
    past, right = one.past[:, number], one.right[:, number]
    median, *others = one.forecast[..., number]
    for low, high in zip(others[: len(others) // 2], others[::-1], strict=False):
        axes.fill_between(steps, low, high, color=WRITTEN, alpha=0.18, linewidth=0, label="between quantiles")
    axes.plot(np.arange(-len(past), 0), past, color=PAST, linewidth=1.1, label="before")
    axes.plot([-1, *steps], [past[-1], *right], color=RIGHT, linewidth=2.0, label="right")
    axes.plot(steps, median, color=WRITTEN, linewidth=1.5, label="forecast")
    axes.axvline(-0.5, color=PALE, linewidth=1)
    axes.margins(x=0.01)
    axes.grid(axis="y", color=PALE, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=7, labelcolor=INK)


def _draw_read(axes: Axes, one: Forecast) -> None:
    """Each forecast step's weights over the same axis of time, white for nothing."""
    if one.read is None:
        axes.set_axis_off()
        return
    horizon, past = len(one.right), len(one.past)
    edges = np.arange(-past, horizon + 1) - 0.5
    axes.pcolormesh(
        edges, np.arange(horizon + 1), one.read, cmap=WHITE_TO_BLUE, vmin=0, vmax=one.read.max() or 1, rasterized=True
    )
    axes.set_ylim(horizon, 0)
    axes.axvline(-0.5, color=RIGHT, linewidth=0.8)
    axes.set_title(f"what was read; the darkest is {one.read.max():.2g}", loc="left", fontsize=8, color=INK)
    axes.spines[:].set_color(PALE)
    axes.tick_params(length=0, labelsize=7, labelcolor=INK)


def _forecasts(folder: Path, task: Mapping[str, Any], kept: Sequence[Series]) -> list[Forecast]:
    """Some of the test's windows, evenly in time; of those whose weights were kept if there are any."""
    rows = {read_field(row["name"]): row for row in read_table(folder / PREDICTIONS)[1]}
    weights = {best.name: best for best in (next(iter(found.values())) for found in read_examples(folder))}
    order = {name: place for place, name in enumerate(_names(kept))}
    names = sorted((name for name in weights or rows if name in rows and name in order), key=order.__getitem__)
    places = np.linspace(0, len(names) - 1, min(SHOWN, len(names)) + 2).round().astype(int)[1:-1]
    chosen = [names[place] for place in places]
    held = read_arrays(folder / MATRICES, [rows[name][side] for name in chosen for side in ("prediction", "reference")])
    return [_forecast(name, rows[name], held, task, kept, weights.get(name)) for name in chosen]


def _forecast(
    name: str,
    row: Mapping[str, str],
    held: Any,
    task: Mapping[str, Any],
    kept: Sequence[Series],
    alignment: Alignment | None,
) -> Forecast:
    right, written = held[row["reference"]], held[row["prediction"]]
    series, start = next((one, at) for one in kept for at, known in enumerate(_names([one])) if known == name)
    blocks = np.stack(np.split(written, written.shape[1] // right.shape[1], axis=1))
    past = series.numbers[max(start - task["lookback"], 0) : start]
    read = None if alignment is None else _on_time_axis(alignment, len(past), len(right))
    return Forecast(name, past, right, blocks, read)


def _on_time_axis(alignment: Alignment, past: int, horizon: int) -> Matrix:
    """(t, m) weights as (horizon, past + horizon): the decoder's own states stand where they were written."""
    found = np.zeros((horizon, past + horizon))
    read = len(alignment.read)
    found[:, :read] += alignment.weights[:, :read]
    found[:, past : past + alignment.own] += alignment.weights[:, read:]
    return found


def _names(kept: Sequence[Series]) -> list[str]:
    """What a window is called that begins at each step of the series."""
    return [f"{series.name} {label}".strip() for series in kept for label in series.labels]
