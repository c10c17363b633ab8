"""Draws what a scorer or a scope does on the tiny example: scores, what may be read, and weights, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnx.reports.figures.grid_layout import DPI, GRID, INK, PALE
from attnx.reports.figures.heatmaps import APART, WHITE_TO_BLUE, forbid

Numbers = NDArray[np.float64]

WIDTH, HIGH = 6.0, 1.66  # inches: the picture, and how high its panels are
LEFT, RIGHT, ABOVE, BELOW = 0.42, 0.18, 0.66, 0.72
WHITE_TO_BROWN = LinearSegmentedColormap.from_list("white_to_brown", ["#ffffff", "#fdd9b5", "#ee9a52", "#a84a06"])
WHITE_TO_GREEN = LinearSegmentedColormap.from_list("white_to_green", ["#ffffff", "#b7dfc0", "#2c8a4b"])
CROWDED = 14  # columns, from which on only every second is labeled


class Reading(NamedTuple):
    """How the tiny example's queries read its memory.

    Attributes:
        scores: (t, m) before normalizing.
        allowed: (t, m) bool, what may be read.
        gain: (t, m) what the weights were multiplied by, or None.
        weights: (t, m).
        columns: a label for each memory position.
        own: how many of them, the last ones, are the decoder's own states.
    """

    scores: Numbers
    allowed: NDArray[np.bool_]
    gain: Numbers | None
    weights: Numbers
    columns: Sequence[str]
    own: int = 0

    @property
    def halves(self) -> dict[str, slice]:
        """The columns of the source and those of the decoder's own states, as far as there are any."""
        source = len(self.columns) - self.own
        found = {"source": slice(0, source), "own states": slice(source, len(self.columns))}
        return {name: part for name, part in found.items() if part.start < part.stop}

    @property
    def lefts(self) -> Numbers:
        """Where each column begins, in cells: the decoder's own states stand apart."""
        position = np.arange(len(self.columns))
        return position + APART * (position >= len(self.columns) - self.own) * (len(self.halves) - 1)


def reading_picture(reading: Reading, title: str, note: str) -> Figure:
    """Scores, what may be read, and weights: steps go down, memory positions across."""
    figure, (scores, may_read, weights) = panels(title, note)
    low, high = float(reading.scores.min()), float(reading.scores.max())
    _heat(scores, reading, reading.scores, WHITE_TO_BROWN, (low, high))
    _heat(weights, reading, reading.weights, WHITE_TO_BLUE, (0, 1))
    # A pale green where nothing multiplies the weights, so that a gain can be seen to.
    gain = np.full(reading.allowed.shape, 0.5) if reading.gain is None else reading.gain
    _heat(may_read, reading, gain * reading.allowed, WHITE_TO_GREEN, (0, 1))
    for axes in (may_read, weights):
        forbid(axes, reading.allowed, reading.lefts)
    below = 1 if reading.own else 0
    label(scores, "scores", f"white {low:.1f}, darkest {high:.1f}", below)
    label(may_read, "may be read", "hatched: no" if reading.gain is None else "hatched: no; darker: more gain", below)
    label(weights, "weights", "white 0, darkest 1", below)
    steps = np.arange(len(reading.weights))
    scores.set_yticks(steps + 0.5, [str(step) for step in steps])
    scores.set_ylabel("step", fontsize=7.5, color=PALE, labelpad=3)
    scores.set_title("memory position", loc="right", fontsize=7.5, color=PALE, pad=4)
    return figure


def sheet(height: float, title: str, note: str) -> Figure:
    """An empty picture, ``height`` inches high, with a title and a note at its foot."""
    figure = Figure(figsize=(WIDTH, height), dpi=DPI)
    FigureCanvasAgg(figure)
    figure.text(0.08 / WIDTH, 1 - 0.1 / height, title, fontsize=10, color=INK, va="top", parse_math=False)
    figure.text(0.08 / WIDTH, 0.09 / height, note, fontsize=7.5, color=PALE, va="bottom", parse_math=False)
    return figure


def panels(title: str, note: str, between: float = 0.2) -> tuple[Figure, list[Axes]]:
    """A picture with three empty panels, so many inches between them."""
    height = ABOVE + HIGH + BELOW
    figure = sheet(height, title, note)
    wide = (WIDTH - LEFT - RIGHT - 2 * between) / 3
    lefts = [LEFT + number * (wide + between) for number in range(3)]
    drawn = [figure.add_axes((left / WIDTH, BELOW / height, wide / WIDTH, HIGH / height)) for left in lefts]
    for axes in drawn:
        axes.tick_params(length=0, pad=2, labelsize=7.5, labelcolor=INK)
    return figure, drawn


def label(axes: Axes, name: str, note: str, lines_below: int = 0) -> None:
    """Name a panel above it, and say what its colors mean, so many lines below it."""
    axes.set_title(name, loc="left", fontsize=9, color=INK, pad=4)
    write_below(axes, 0, note, lines_below)


def write_below(axes: Axes, x: float, text: str, line: int = 0) -> None:
    """Write small text below a panel, at ``x`` from 0 to 1."""
    offset = (0, -4 - 10 * line)
    where: dict[str, Any] = {"xycoords": "axes fraction", "xytext": offset, "textcoords": "offset points"}
    axes.annotate(text, (x, 0), fontsize=7.5, color=PALE, verticalalignment="top", **where)


def _heat(axes: Axes, reading: Reading, values: Numbers, colors: Colormap, limits: tuple[float, float]) -> None:
    lefts, rows, (low, high) = reading.lefts, np.arange(len(values) + 1), limits
    end = lefts[-1] + 1
    for name, part in reading.halves.items():
        edges = np.append(lefts[part], lefts[part][-1] + 1)
        shown = values[:, part]
        axes.pcolormesh(edges, rows, shown, cmap=colors, vmin=low, vmax=high, edgecolors=GRID, linewidth=0.4)
        if reading.own:
            write_below(axes, edges[0] / end, name)
    axes.set(xlim=(0, end), ylim=(rows[-1], 0), yticks=[])
    axes.spines[:].set_visible(False)
    axes.xaxis.tick_top()
    every = slice(None, None, 2 if len(lefts) > CROWDED else 1)
    places = np.concatenate([(lefts[part] + 0.5)[every] for part in reading.halves.values()])
    axes.set_xticks(places, [name for part in reading.halves.values() for name in reading.columns[part][every]])
