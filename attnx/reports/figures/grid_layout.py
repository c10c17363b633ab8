"""Lays heat maps out on one page: aligned at the upper left, cells of one size, one color bar, one legend."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

DPI = 150
INK, PALE, GRID = "#222222", "#6b7280", "#dfe3e8"
GAP, EDGE, BAR = 0.35, 0.15, 0.11  # inches: between panels, around the page, the color bar's width
LOWEST, HIGHEST = 0.6, 2.4  # inches of the color bar: its three numbers need room


class Room(NamedTuple):
    """What a panel needs around the upper left corner of its heat map, in inches."""

    left: float
    above: float
    right: float
    below: float


def arrange(figure: Figure, panels: Sequence[Axes], columns: int, signs: Sequence[Artist] = ()) -> None:
    """Set panels row by row, heat maps aligned at the upper left, and fit the page around them and a color bar.

    ``signs`` are labeled artists; a legend at the foot of the page explains them.
    """
    sizes = [axes.get_position().size for axes in panels]  # the figure is one inch square until the end
    rooms = [_room(axes) for axes in panels]
    by_column = [rooms[column::columns] for column in range(columns)]
    by_row = [rooms[start : start + columns] for start in range(0, len(rooms), columns)]
    lefts = _starts([(max(r.left for r in rooms), max(r.right for r in rooms)) for rooms in by_column])
    tops = _starts([(max(r.above for r in rooms), max(r.below for r in rooms)) for rooms in by_row])
    corners = [(lefts[number % columns], tops[number // columns]) for number in range(len(panels))]
    bar = max(x + width for (x, _), (width, _) in zip(corners, sizes, strict=True)) + 0.22
    right = max(x + room.right for (x, _), room in zip(corners, rooms, strict=True))
    tall = float(np.clip(sizes[columns - 1][1], LOWEST, HIGHEST))
    below = max(y + room.below for (_, y), room in zip(corners, rooms, strict=True))
    legend = _legend(figure, signs)
    wide = max(bar + BAR + 0.55, right, EDGE + legend[0]) + EDGE
    high = max(below, tops[0] + tall + EDGE) + legend[1] + EDGE
    boxes = [(x, y, *size) for (x, y), size in zip(corners, sizes, strict=True)]
    boxes.append((bar, tops[0], BAR, tall))
    figure.set_size_inches(wide, high)
    axes_of_bar = _bar(figure, panels[0])
    for axes, (x, y, width, height) in zip([*panels, axes_of_bar], boxes, strict=True):
        axes.set_position((x / wide, 1 - (y + height) / high, width / wide, height / high))


def _legend(figure: Figure, signs: Sequence[Artist]) -> tuple[float, float]:
    """A legend at the lower left; its width and height in inches, 0 where there is nothing to explain."""
    if not signs:
        return 0.0, 0.0
    legend = figure.legend(handles=list(signs), loc="lower left", frameon=False, fontsize=9, labelcolor=INK)
    box = legend.get_window_extent()
    return float(box.width) / DPI, float(box.height) / DPI


def _room(axes: Axes) -> Room:
    needed = axes.get_tightbbox()
    assert needed is not None  # only an invisible axes has none
    (x0, y0), (x1, y1) = needed.get_points() / DPI
    height = float(axes.get_position().height)
    return Room(left=-x0, above=y1 - height, right=x1, below=height - y0)


def _starts(needs: Sequence[tuple[float, float]]) -> list[float]:
    """Where each heat map of a line of panels starts, from what each needs before and after its start."""
    ends = accumulate((before + after + GAP for before, after in needs), initial=EDGE)
    return [end + before for end, (before, _) in zip(ends, needs, strict=False)]


def _bar(figure: Figure, panel: Axes) -> Axes:
    axes = figure.add_axes((0, 0, 1, 1))
    mesh = panel.collections[0]
    _, top = mesh.get_clim()
    bar = figure.colorbar(mesh, cax=axes, ticks=[0, top / 2, top])
    bar.set_label("weight", color=INK, fontsize=9)
    bar.outline.set_edgecolor(GRID)
    axes.tick_params(length=0, labelsize=9, labelcolor=INK)
    return axes
