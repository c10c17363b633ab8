"""Draws one decoder step and the vector that a query input selects from it."""

from __future__ import annotations

from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Patch

from attnx.gallery.readings import WIDTH, blank_figure
from attnx.reports.figures.grid_layout import GRID, INK, PALE

HEIGHT = 2.5
SELECTED, BOX = "#1f68ad", "#f3f5f8"


class Vector(NamedTuple):
    """A vector that a query input may select: its text, its position in inches, and when it is known."""

    text: str
    position: tuple[float, float]
    availability: str


VECTORS = {
    "context": Vector("$c_{t-1}$  last context", (0.95, 1.85), "known after the previous step has read"),
    "prev_state": Vector("$h_{t-1}$  previous state", (0.95, 1.2), "known before the cell runs"),
    "token": Vector(
        "$e(y_{t-1})$  token", (2.6, 0.55), "known before the cell runs; in training, for all steps at once"
    ),
    "tag": Vector("$e(l)$  tag", (0.95, 0.55), "known from the start"),
    "state": Vector("$h_t$  current state", (4.1, 1.2), "known after the cell has run"),
}
MODULES = {"query": (2.6, 1.85), "attention": (4.1, 1.85), "cell": (2.6, 1.2), "readout": (5.45, 1.2)}
ARROWS = [("prev_state", "cell"), ("token", "cell"), ("cell", "state"), ("state", "readout")]
ARROWS += [("query", "attention"), ("attention", "readout")]
# Arrows that would cross another box are curved.
CURVATURES = {("token", "query"): 0.55, ("attention", "readout"): -0.2}


def draw_step(needs: str, title: str) -> Figure:
    """Draw the vectors of one step, the selected one in color with an arrow to the query."""
    figure = blank_figure(HEIGHT, title, f"The selected vector is {VECTORS[needs].availability}.")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
    axes.set_axis_off()
    boxes = {name: _draw_box(axes, name, position, "white", INK) for name, position in MODULES.items()}
    for name, vector in VECTORS.items():
        colors = (SELECTED, "white") if name == needs else (BOX, INK)
        boxes[name] = _draw_box(axes, vector.text, vector.position, *colors)
    figure.draw_without_rendering()  # boxes get their sizes, at which arrows end
    for arrow in ARROWS:
        _draw_arrow(axes, boxes, arrow, PALE, 1.0)
    _draw_arrow(axes, boxes, (needs, "query"), SELECTED, 2.0)
    return figure


def _draw_box(axes: Axes, text: str, position: tuple[float, float], fill: str, ink: str) -> Patch:
    shape = "square,pad=0.45" if fill == "white" else "round,pad=0.45"
    edge = SELECTED if fill == SELECTED else GRID
    style = {"boxstyle": shape, "facecolor": fill, "edgecolor": edge, "linewidth": 1}
    patch = axes.text(*position, text, fontsize=8.5, color=ink, ha="center", va="center", bbox=style).get_bbox_patch()
    assert patch is not None
    return patch


def _draw_arrow(axes: Axes, boxes: dict[str, Patch], ends: tuple[str, str], color: str, width: float) -> None:
    curve = f"arc3,rad={CURVATURES.get(ends, 0.0)}"
    start, end = (MODULES.get(name) or VECTORS[name].position for name in ends)
    arrow = FancyArrowPatch(start, end, connectionstyle=curve, arrowstyle="-|>", color=color, linewidth=width)
    arrow.set(patchA=boxes[ends[0]], patchB=boxes[ends[1]], mutation_scale=9)
    axes.add_patch(arrow)
