"""Draws the learning curves of a run: loss, and the monitored validation metric, over training steps."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attnx.reports.figures.heatmaps import Format, save_figure
from attnx.reports.metric_names import TEST, VALID, is_higher_better, is_percent, metric_label
from attnx.runs.layout import CURVES_PICTURE, RUN_JSON
from attnx.runs.run import Run

DPI = 150
INK, PALE = "#333333", "#dddddd"
MAX_MARKED_POINTS = 40


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
    monitor = run.monitor if (run.path / RUN_JSON).is_file() else ""
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
    return save_figure(figure, (run.path / CURVES_PICTURE).with_suffix(f".{form}"))


def style_axes(axes: Axes, label_size: float) -> None:
    """Horizontal lines only, without a frame."""
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(PALE)
    axes.tick_params(length=0, labelsize=label_size, labelcolor=INK)
