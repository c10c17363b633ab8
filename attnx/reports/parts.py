"""Draws what a part of attention does on the tiny example: arrays in, a picture out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnx.reports.heatmaps import APART, FORBIDDEN, MARK, PALE, WHITE_TO_BLUE
from attnx.reports.page import DPI, GRID, INK

Numbers = NDArray[np.float64]

WIDE, PANEL, HIGH = 6.0, 1.66, 1.66  # inches: the picture, and the panels side by side in it
LEFT, ABOVE, BELOW, BETWEEN = 0.4, 0.62, 0.42, 0.2
WHITE_TO_BROWN = LinearSegmentedColormap.from_list("white_to_brown", ["#ffffff", "#fdd9b5", "#ee9a52", "#a84a06"])
WHITE_TO_GREEN = LinearSegmentedColormap.from_list("white_to_green", ["#ffffff", "#b7dfc0", "#2c8a4b"])
READABLE = "#b7dfc0"
BLUE = "#1f68ad"


class Reading(NamedTuple):
    """How the tiny example's queries read its memory.

    Attributes:
        scores: (t, m) before normalising.
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


class Normalising(NamedTuple):
    """How one row of scores becomes weights.

    Attributes:
        scores: (m,).
        allowed: (m,) bool.
        weights: (m,).
        softmax: (m,) what softmax makes of the same.
        rising: (n,) scores for one of two positions, the other's being 0.
        weight: (n,) its weights.
        softmax_weight: (n,) softmax's.
    """

    scores: Numbers
    allowed: NDArray[np.bool_]
    weights: Numbers
    softmax: Numbers
    rising: Numbers
    weight: Numbers
    softmax_weight: Numbers


def reading_picture(reading: Reading, title: str) -> Figure:
    """Scores, what may be read, and weights, side by side: steps down, memory positions across."""
    figure, panels = _panels(title)
    scores, allowed, weights = panels
    low, high = reading.scores.min(), reading.scores.max()
    _heat(scores, reading, reading.scores, WHITE_TO_BROWN, (low, high))
    _head(scores, "scores", f"from {low:.1f} (white) to {high:.1f}")
    gain = reading.allowed.astype(float) * 0.5 if reading.gain is None else reading.gain * reading.allowed
    _heat(allowed, reading, gain, WHITE_TO_GREEN, (0, 1))
    _head(allowed, "may be read", "green, by its gain" if reading.gain is not None else "green")
    _heat(weights, reading, reading.weights, WHITE_TO_BLUE, (0, 1))
    _head(weights, "weights", "from 0 (white) to 1")
    for axes in (allowed, weights):
        _hatch(axes, reading)
    steps = range(len(reading.weights))
    scores.set_yticks(np.array(steps) + 0.5, [str(step) for step in steps], color=INK)
    scores.set_ylabel("step", fontsize=8, color=PALE, labelpad=3)
    return figure


def _panels(title: str) -> tuple[Figure, list[Axes]]:
    high = ABOVE + HIGH + BELOW
    figure = Figure(figsize=(WIDE, high), dpi=DPI)
    FigureCanvasAgg(figure)
    figure.text(LEFT / WIDE, 1 - 0.1 / high, title, fontsize=10, color=INK, va="top", parse_math=False)
    starts = [LEFT + number * (PANEL + BETWEEN) for number in range(3)]
    return figure, [figure.add_axes((x / WIDE, BELOW / high, PANEL / WIDE, HIGH / high)) for x in starts]


def _lefts(reading: Reading) -> Numbers:
    """Where each column begins, in cells: the decoder's own states stand apart."""
    positions = np.arange(len(reading.columns))
    source = len(reading.columns) - reading.own
    return positions + APART * (positions >= source) * bool(source)


def _heat(axes: Axes, reading: Reading, values: Numbers, colours: Colormap, limits: tuple[float, float]) -> None:
    lefts, steps, source = _lefts(reading), len(values), len(reading.columns) - reading.own
    for part in (slice(0, source), slice(source, len(lefts))):
        if part.start < part.stop:
            edges = np.append(lefts[part], lefts[part][-1] + 1)
            rows = np.arange(steps + 1)
            low, high = limits
            axes.pcolormesh(
                edges, rows, values[:, part], cmap=colours, vmin=low, vmax=high, edgecolors=GRID, linewidth=0.4
            )
    axes.set(xlim=(0, lefts[-1] + 1), ylim=(steps, 0), yticks=[])
    axes.spines[:].set_visible(False)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=2, labelsize=7, labelcolor=INK)
    axes.set_xticks(lefts + 0.5, reading.columns)


def _hatch(axes: Axes, reading: Reading) -> None:
    ...


def _head(axes: Axes, name: str, note: str) -> None:
    axes.set_title(name, loc="left", fontsize=9, color=INK, pad=4)
    axes.annotate(note, (0, 0), xytext=(0, -4), xycoords="axes fraction", textcoords="offset points", va="top",
                  fontsize=7.5, color=PALE)
