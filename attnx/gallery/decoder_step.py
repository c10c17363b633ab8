"""Draws one step of a decoder, and which of its vectors a query input picks to ask with."""

from __future__ import annotations

from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Patch

from attnx.gallery.readings import WIDTH, sheet
from attnx.reports.figures.grid_layout import GRID, INK, PALE

HEIGHT = 2.5
PICKED, BOX = "#1f68ad", "#f3f5f8"


class Vector(NamedTuple):
    """One vector that a query input may pick: what stands in its box, where that is in inches, when it is known."""

    text: str
    at: tuple[float, float]
    known: str


VECTORS = {
    "context": Vector("$c_{t-1}$  last context", (0.95, 1.85), "known once the step before has read"),
    "before": Vector("$h_{t-1}$  state before", (0.95, 1.2), "known before the cell runs"),
    "token": Vector(
        "$e(y_{t-1})$  token", (2.6, 0.55), "known before the cell runs; in training, for all steps at once"
    ),
    "tag": Vector("$e(l)$  tag", (0.95, 0.55), "known from the start"),
    "after": Vector("$h_t$  state after", (4.1, 1.2), "known once the cell ran"),
}
WORKS = {"query": (2.6, 1.85), "attention": (4.1, 1.85), "cell": (2.6, 1.2), "readout": (5.45, 1.2)}
ARROWS = [("before", "cell"), ("token", "cell"), ("cell", "after"), ("after", "readout")]
ARROWS += [("query", "attention"), ("attention", "readout")]
# Those that would run through another box are bowed.
BOWED = {("token", "query"): 0.55, ("attention", "readout"): -0.2}


def step_picture(needs: str, title: str) -> Figure:
    """The vectors around one step, the one that is picked in color, with an arrow to the query."""
    figure = sheet(HEIGHT, title, f"What it picks is {VECTORS[needs].known}.")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
    axes.set_axis_off()
    boxes = {name: _box(axes, name, at, "white", INK) for name, at in WORKS.items()}
    for name, vector in VECTORS.items():
        boxes[name] = _box(axes, vector.text, vector.at, *((PICKED, "white") if name == needs else (BOX, INK)))
    figure.draw_without_rendering()  # only then does a box know its size, at which arrows end
    for arrow in ARROWS:
        _arrow(axes, boxes, arrow, PALE, 1.0)
    _arrow(axes, boxes, (needs, "query"), PICKED, 2.0)
    return figure


def _box(axes: Axes, text: str, at: tuple[float, float], fill: str, ink: str) -> Patch:
    shape = "square,pad=0.45" if fill == "white" else "round,pad=0.45"
    bounds = {"boxstyle": shape, "facecolor": fill, "edgecolor": PICKED if fill == PICKED else GRID, "linewidth": 1}
    patch = axes.text(*at, text, fontsize=8.5, color=ink, ha="center", va="center", bbox=bounds).get_bbox_patch()
    assert patch is not None
    return patch


def _arrow(axes: Axes, boxes: dict[str, Patch], ends: tuple[str, str], color: str, width: float) -> None:
    bow = f"arc3,rad={BOWED.get(ends, 0.0)}"
    start, end = (WORKS.get(name) or VECTORS[name].at for name in ends)
    arrow = FancyArrowPatch(start, end, connectionstyle=bow, arrowstyle="-|>", color=color, linewidth=width)
    arrow.set(patchA=boxes[ends[0]], patchB=boxes[ends[1]], mutation_scale=9)
    axes.add_patch(arrow)
