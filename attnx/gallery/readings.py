"""Draws a scorer or a scope on the example: scores, allowed positions and weights, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnx.reports.figures.grid_layout import DPI, GRID, INK, PALE
from attnx.reports.figures.heatmaps import GROUP_GAP, WHITE_TO_BLUE, hatch_forbidden

Numbers = NDArray[np.float64]

WIDTH, PANEL_HEIGHT = 6.0, 1.66  # inches
MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 0.42, 0.18, 0.66, 0.72
WHITE_TO_BROWN = LinearSegmentedColormap.from_list("white_to_brown", ["#ffffff", "#fdd9b5", "#ee9a52", "#a84a06"])
WHITE_TO_GREEN = LinearSegmentedColormap.from_list("white_to_green", ["#ffffff", "#b7dfc0", "#2c8a4b"])
MAX_LABELED_COLUMNS = 14  # with more columns every second one is labeled


class Reading(NamedTuple):
    """Attention of the example's queries over its memory.

    Attributes:
        scores: (t, m) before normalizing.
        allowed_mask: (t, m) bool.
        gain: (t, m) factor of the weights, or None.
        weights: (t, m).
        columns: label of each memory position.
        decoder_states: how many positions, the last ones, are decoder states.
    """

    scores: Numbers
    allowed_mask: NDArray[np.bool_]
    gain: Numbers | None
    weights: Numbers
    columns: Sequence[str]
    decoder_states: int = 0

    @property
    def column_groups(self) -> dict[str, slice]:
        """The columns of the source and those of the decoder states; empty groups are left out."""
        source = len(self.columns) - self.decoder_states
        groups = {"source": slice(0, source), "decoder states": slice(source, len(self.columns))}
        return {name: group for name, group in groups.items() if group.start < group.stop}

    @property
    def left_edges(self) -> Numbers:
        """Left edge of each column, in cells; a gap separates the decoder states."""
        position = np.arange(len(self.columns))
        is_state = position >= len(self.columns) - self.decoder_states
        return position + GROUP_GAP * is_state * (len(self.column_groups) - 1)


def draw_reading(reading: Reading, title: str, note: str) -> Figure:
    """Draw scores, allowed positions and weights, a row per step and a column per memory position."""
    figure, (scores, allowed, weights) = make_panels(title, note)
    low, high = float(reading.scores.min()), float(reading.scores.max())
    _draw_heatmap(scores, reading, reading.scores, WHITE_TO_BROWN, (low, high))
    _draw_heatmap(weights, reading, reading.weights, WHITE_TO_BLUE, (0, 1))
    # Pale green where there is no gain, so that a gain is visible.
    gain = np.full(reading.allowed_mask.shape, 0.5) if reading.gain is None else reading.gain
    _draw_heatmap(allowed, reading, gain * reading.allowed_mask, WHITE_TO_GREEN, (0, 1))
    for axes in (allowed, weights):
        hatch_forbidden(axes, reading.allowed_mask, reading.left_edges)
    below = 1 if reading.decoder_states else 0
    label(scores, "scores", f"white {low:.1f}, darkest {high:.1f}", below)
    label(allowed, "allowed", "hatched: no" if reading.gain is None else "hatched: no; darker: more gain", below)
    label(weights, "weights", "white 0, darkest 1", below)
    steps = np.arange(len(reading.weights))
    scores.set_yticks(steps + 0.5, [str(step) for step in steps])
    scores.set_ylabel("step", fontsize=7.5, color=PALE, labelpad=3)
    scores.set_title("memory position", loc="right", fontsize=7.5, color=PALE, pad=4)
    return figure


def blank_figure(height: float, title: str, note: str) -> Figure:
    """A figure, ``height`` inches high, with a title and a note at the bottom."""
    figure = Figure(figsize=(WIDTH, height), dpi=DPI)
    FigureCanvasAgg(figure)
    figure.text(0.08 / WIDTH, 1 - 0.1 / height, title, fontsize=10, color=INK, va="top", parse_math=False)
    figure.text(0.08 / WIDTH, 0.09 / height, note, fontsize=7.5, color=PALE, va="bottom", parse_math=False)
    return figure


def make_panels(title: str, note: str, gap: float = 0.2) -> tuple[Figure, list[Axes]]:
    """A figure with three empty panels, ``gap`` inches between them."""
    height = MARGIN_TOP + PANEL_HEIGHT + MARGIN_BOTTOM
    figure = blank_figure(height, title, note)
    width = (WIDTH - MARGIN_LEFT - MARGIN_RIGHT - 2 * gap) / 3
    panels = []
    for column in range(3):
        x = MARGIN_LEFT + column * (width + gap)
        panels.append(figure.add_axes((x / WIDTH, MARGIN_BOTTOM / height, width / WIDTH, PANEL_HEIGHT / height)))
        panels[-1].tick_params(length=0, pad=2, labelsize=7.5, labelcolor=INK)
    return figure, panels


def label(axes: Axes, name: str, note: str, lines_below: int = 0) -> None:
    """Write a panel's name above it, and a note on its colors below it."""
    axes.set_title(name, loc="left", fontsize=9, color=INK, pad=4)
    _write_below(axes, 0, note, lines_below)


def _write_below(axes: Axes, x: float, text: str, line: int = 0) -> None:
    """Write small text below a panel, at ``x`` from 0 to 1."""
    axes.annotate(
        text,
        (x, 0),
        xycoords="axes fraction",
        xytext=(0, -4 - 10 * line),
        textcoords="offset points",
        fontsize=7.5,
        color=PALE,
        verticalalignment="top",
    )


def _draw_heatmap(axes: Axes, reading: Reading, values: Numbers, colors: Colormap, limits: tuple[float, float]) -> None:
    lefts, rows, (low, high) = reading.left_edges, np.arange(len(values) + 1), limits
    groups = reading.column_groups
    end = lefts[-1] + 1
    for name, group in groups.items():
        edges = np.append(lefts[group], lefts[group][-1] + 1)
        axes.pcolormesh(edges, rows, values[:, group], cmap=colors, vmin=low, vmax=high, edgecolors=GRID, linewidth=0.4)
        if reading.decoder_states:
            _write_below(axes, edges[0] / end, name)
    axes.set(xlim=(0, end), ylim=(rows[-1], 0), yticks=[])
    axes.spines[:].set_visible(False)
    axes.xaxis.tick_top()
    step = slice(None, None, 2 if len(lefts) > MAX_LABELED_COLUMNS else 1)
    positions = np.concatenate([(lefts[group] + 0.5)[step] for group in groups.values()])
    axes.set_xticks(positions, [name for group in groups.values() for name in reading.columns[group][step]])
