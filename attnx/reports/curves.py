"""Draws how a run learned: loss on the left, validation error rates on the right, over training steps."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnx.errors import UserError
from attnx.run_format import METRICS

DPI = 150
INK, PALE = "#333333", "#dddddd"


class Line(NamedTuple):
    """One curve: its column in metrics.csv, its label and its colour."""

    column: str
    label: str
    colour: str


PANELS = {
    "loss": (Line("train_loss", "train", "#9ecae1"), Line("valid_loss", "valid", "#08519c")),
    "validation error, %": (Line("valid_per", "PER", "#08519c"), Line("valid_wer", "WER", "#d95f0e")),
}


def draw_curves(folder: Path | str) -> Path | None:
    """Write curves.png from metrics.csv and return its path; None when there is nothing to draw.

    Raises:
        UserError: a cell of metrics.csv is not a number.
    """
    source = Path(folder) / METRICS
    curves = read_curves(source) if source.is_file() else {}
    panels = {title: lines for title, lines in PANELS.items() if any(line.column in curves for line in lines)}
    if not panels:
        return None
    figure = Figure(figsize=(4.6 * len(panels), 3.2), dpi=DPI)
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.1, wspace=0.06)
    for number, (title, lines) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(1, len(panels), number)
        for line in lines:
            _draw(axes, curves.get(line.column, {}), line)
        _dress(axes, title)
    target = source.with_name("curves.png")
    figure.savefig(target)
    return target


def read_curves(path: Path) -> dict[str, dict[int, float]]:
    """Return column -> step -> value of the filled cells; the last of a step logged twice (on resuming)."""
    wanted = {line.column for lines in PANELS.values() for line in lines}
    curves: dict[str, dict[int, float]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            for column in wanted & row.keys():
                if row[column]:
                    where = f"{path}:{number}"
                    step = int(_number(row.get("step"), where, "step"))
                    curves.setdefault(column, {})[step] = _number(row[column], where, column)
    return curves


def _number(text: str | None, where: str, column: str) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise UserError(f"{where}: {column} must be a number, not {text!r}") from None


def _draw(axes: Axes, points: Mapping[int, float], line: Line) -> None:
    if not points:
        return
    steps = sorted(points)
    marker = "o" if len(steps) < 40 else ""
    axes.plot(
        steps,
        [points[step] for step in steps],
        color=line.colour,
        label=line.label,
        marker=marker,
        markersize=3,
        linewidth=1.6,
    )


def _dress(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    axes.set_xlabel("step", color=INK)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(PALE)
    axes.tick_params(length=0, labelsize=9, labelcolor=INK)
    axes.legend(frameon=False, fontsize=9, labelcolor=INK)
