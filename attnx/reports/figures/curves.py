"""Draws curves: loss and the monitored metric over training steps, and predicted matrices over their references."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attnx.data.evenly_spaced import evenly_spaced_indices
from attnx.data.features import FeatureScaler
from attnx.files.bounded_files import read_arrays
from attnx.reports.figures.fonts import choose_fonts, shorten
from attnx.reports.figures.heatmaps import Format, save_figure
from attnx.reports.metric_names import TEST, VALID, is_higher_better, is_percent, metric_label
from attnx.runs import layout
from attnx.runs.predictions import read_field, read_table
from attnx.runs.run import Run

DPI = 150
INK, PALE = "#333333", "#dddddd"
MAX_MARKED_POINTS = 40
REFERENCE_COLOR, PREDICTION_COLOR = "#9aa3ad", "#1f68ad"
MAX_EXAMPLES, MAX_COLUMNS = 5, 4
MAX_LABEL_LENGTH, MAX_TITLE_LENGTH = 22, 30
# The column of each curve in metrics.csv, its label and its color.
LOSSES = (("train_loss", "train", "#9ecae1"), ("valid_loss", "valid", "#08519c"))
# Columns that the left panel shows, or a function of them.
LOSS_COLUMNS = ("valid_loss", "valid_perplexity")


def draw_curves(folder: Path | str, form: Format = "png") -> Path | None:
    """Write curves.png, or .svg or .pdf, from metrics.csv and return its path; None if there is nothing to draw.

    Raises:
        UserError: a cell of metrics.csv is not a number, or run.json cannot be read.
    """
    run = Run(folder)
    curves = run.curves
    monitor = run.monitor if (run.path / layout.RUN_JSON).is_file() else ""
    panels = {"loss": [line for line in LOSSES if curves.get(line[0])]}
    names = [name for name, curve in curves.items() if curve and name.startswith(VALID) and name not in LOSS_COLUMNS]
    first_metric = next((name for name in names if is_higher_better(name) is not None), None)
    if main := monitor if curves.get(monitor) and monitor != "valid_loss" else first_metric:
        label = metric_label(TEST + main.removeprefix(VALID))
        panels["validation, %" if is_percent(main) else "validation"] = [(main, label, LOSSES[1][2])]
    panels = {title: lines for title, lines in panels.items() if lines}
    if not panels:
        return None
    figure = Figure(figsize=(4.6 * len(panels), 3.2), dpi=DPI)
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.1, wspace=0.06)
    for index, (title, lines) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(1, len(panels), index)
        for column, label, color in lines:
            steps, values = zip(*sorted(curves[column].items()), strict=True)
            marker = "o" if len(steps) < MAX_MARKED_POINTS else ""
            axes.plot(steps, values, color=color, label=label, marker=marker, markersize=3, linewidth=1.6)
        axes.set_ylabel(title, color=INK)
        axes.set_xlabel("step", color=INK)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        low, high = min(0.0, axes.dataLim.y0), axes.dataLim.y1
        axes.set_ylim(low, high + 0.1 * (high - low) if high > low else low + 1)  # room above the highest point
        style_axes(axes, label_size=9)
        axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    return save_figure(figure, (run.path / layout.CURVES_PICTURE).with_suffix(f".{form}"))


def style_axes(axes: Axes, label_size: float) -> None:
    """Horizontal lines only, without a frame."""
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(PALE)
    axes.tick_params(length=0, labelsize=label_size, labelcolor=INK)


def draw_numeric_predictions(folder: Path | str, form: Format = "png") -> list[Path]:
    """Write predictions.png, or .svg or .pdf, from predictions.npz; no picture if the run predicted no matrices."""
    folder = Path(folder)
    if not (folder / layout.MATRICES).is_file():
        return []
    scales = FeatureScaler.load(folder / layout.VOCABULARY / layout.TARGET_FEATURES)
    columns = (scales.columns or tuple(f"column {column}" for column in range(scales.width)))[:MAX_COLUMNS]
    by_length = sorted(read_table(folder / layout.PREDICTIONS)[1], key=lambda row: int(row["reference_steps"]))
    rows = [by_length[index] for index in evenly_spaced_indices(len(by_length), MAX_EXAMPLES)]
    texts = [read_field(row.get("name") or row["source"]) for row in rows]
    # The end of a path distinguishes it.
    labels = [text if len(text) <= MAX_LABEL_LENGTH else f"…{text[1 - MAX_LABEL_LENGTH :]}" for text in texts]
    fonts = choose_fonts("".join([*labels, *columns]))
    style: dict[str, Any] = {"parse_math": False, "fontfamily": fonts.families, "color": INK}
    figure = Figure(figsize=(2.6 * len(columns) + 0.8, 1.5 * len(rows) + 0.6), dpi=DPI)
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08)
    panels = figure.subplots(len(rows), len(columns), squeeze=False, sharex="row", sharey="col")
    arrays = read_arrays(folder / layout.MATRICES, [row[side] for row in rows for side in ("reference", "prediction")])
    for row, label, axes in zip(rows, labels, panels, strict=True):
        for column in range(len(columns)):
            panel, reference, prediction = axes[column], arrays[row["reference"]], arrays[row["prediction"]]
            marker = "." if max(len(reference), len(prediction)) < MAX_MARKED_POINTS else ""
            panel.plot(reference[:, column], color=REFERENCE_COLOR, linewidth=2.2, label="reference", marker=marker)
            panel.plot(prediction[:, column], color=PREDICTION_COLOR, linewidth=1.2, label="prediction", marker=marker)
            panel.locator_params(axis="x", integer=True)
            style_axes(panel, label_size=8)
        axes[0].set_ylabel(fonts.display(label), fontsize=8, **style)
    for column, name in enumerate(columns):
        title = shorten(fonts.display(name).replace("␣", " "), MAX_TITLE_LENGTH)
        panels[0][column].set_title(title, loc="left", fontsize=10, **style)
        panels[-1][column].set_xlabel("step", fontsize=8, color=INK)
    lines = panels[0][0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside upper right", ncols=2, frameon=False, fontsize=8)
    return [save_figure(figure, (folder / layout.PREDICTIONS_PICTURE).with_suffix(f".{form}"))]
