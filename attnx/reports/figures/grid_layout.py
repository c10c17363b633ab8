"""Arranges heat maps on one page: aligned at the upper left, with one color bar and one legend."""

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
GAP, MARGIN, BAR_WIDTH = 0.35, 0.15, 0.11  # inches: between panels, around the page, of the color bar
MIN_BAR_HEIGHT, MAX_BAR_HEIGHT = 0.6, 2.4  # inches: the bar's three numbers need room


class Margins(NamedTuple):
    """Inches that a panel needs around its heat map, measured from the upper left corner of the map."""

    left_side: float
    top: float
    right_side: float
    bottom: float


def arrange(figure: Figure, panels: Sequence[Axes], columns: int, legend: Sequence[Artist] = ()) -> None:
    """Place panels row by row, and fit the page to them, a color bar and a legend of labeled artists."""
    sizes = [axes.get_position().size for axes in panels]  # the figure is one inch square until the end
    margins = [_margins(axes) for axes in panels]
    by_column = [margins[column::columns] for column in range(columns)]
    by_row = [margins[start : start + columns] for start in range(0, len(margins), columns)]
    lefts = _starts([(max(m.left_side for m in line), max(m.right_side for m in line)) for line in by_column])
    tops = _starts([(max(m.top for m in line), max(m.bottom for m in line)) for line in by_row])
    corners = [(lefts[index % columns], tops[index // columns]) for index in range(len(panels))]
    bar_left = max(x + margin.right_side for (x, _), margin in zip(corners, margins, strict=True)) + 0.15
    bottom = max(y + margin.bottom for (_, y), margin in zip(corners, margins, strict=True))
    bar_height = float(np.clip(sizes[columns - 1][1], MIN_BAR_HEIGHT, MAX_BAR_HEIGHT))
    legend_width, legend_height = _draw_legend(figure, legend)
    page_width = max(bar_left + BAR_WIDTH + 0.55, MARGIN + legend_width) + MARGIN
    page_height = max(bottom, tops[0] + bar_height + MARGIN) + legend_height + MARGIN
    boxes = [(x, y, *size) for (x, y), size in zip(corners, sizes, strict=True)]
    boxes.append((bar_left, tops[0], BAR_WIDTH, bar_height))
    figure.set_size_inches(page_width, page_height)
    for axes, (x, y, width, height) in zip([*panels, _draw_color_bar(figure, panels[0])], boxes, strict=True):
        y = 1 - (y + height) / page_height
        axes.set_position((x / page_width, y, width / page_width, height / page_height))


def _draw_legend(figure: Figure, artists: Sequence[Artist]) -> tuple[float, float]:
    """Draw a legend at the lower left and return its width and height in inches; 0 without artists."""
    if not artists:
        return 0.0, 0.0
    legend = figure.legend(handles=list(artists), loc="lower left", frameon=False, fontsize=9, labelcolor=INK)
    box = legend.get_window_extent()
    return float(box.width) / DPI, float(box.height) / DPI


def _margins(axes: Axes) -> Margins:
    box = axes.get_tightbbox()
    assert box is not None  # only invisible axes have none
    (x0, y0), (x1, y1) = box.get_points() / DPI
    height = float(axes.get_position().height)
    return Margins(left_side=-x0, top=y1 - height, right_side=x1, bottom=height - y0)


def _starts(margins: Sequence[tuple[float, float]]) -> list[float]:
    """Start of each heat map in a line of panels, from the space needed on both sides of its start."""
    ends = accumulate((low + high + GAP for low, high in margins), initial=MARGIN)
    return [end + low for end, (low, _) in zip(ends, margins, strict=False)]


def _draw_color_bar(figure: Figure, panel: Axes) -> Axes:
    axes = figure.add_axes((0, 0, 1, 1))
    mesh = panel.collections[0]
    _, top = mesh.get_clim()
    bar = figure.colorbar(mesh, cax=axes, ticks=[0, top / 2, top])
    bar.set_label("weight", color=INK, fontsize=9)
    bar.outline.set_edgecolor(GRID)
    axes.tick_params(length=0, labelsize=9, labelcolor=INK)
    return axes
