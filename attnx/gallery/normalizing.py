"""Draws what a normalizer makes of one row of scores, and of one score that rises, beside what softmax makes of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnx.gallery.readings import Numbers, label, panels
from attnx.reports.figures.grid_layout import GRID, INK
from attnx.reports.figures.heatmaps import FORBIDDEN

BROWN, BLUE = "#ee9a52", "#1f68ad"


class Normalizing(NamedTuple):
    """How scores become weights.

    Attributes:
        scores: (m,) one row.
        allowed: (m,) bool.
        weights: (m,).
        softmax: (m,) what softmax makes of the same.
        rising: (n,) scores for one of two positions, while the other's stays.
        weight: (n,) the weights of the one.
        softmax_weight: (n,) those that softmax gives it.
        other: the other's score.
    """

    scores: Numbers
    allowed: NDArray[np.bool_]
    weights: Numbers
    softmax: Numbers
    rising: Numbers
    weight: Numbers
    softmax_weight: Numbers
    other: float


def normalizing_picture(shown: Normalizing, title: str) -> Figure:
    """One row of scores, the weights it becomes, and the weight of one of two positions as its score rises."""
    softmax = np.array_equal(shown.weights, shown.softmax)
    note = "" if softmax else "Dark lines: what softmax makes of the same scores."
    figure, (scores, weights, curve) = panels(title, note, between=0.36)
    positions = np.arange(len(shown.scores))
    scores.bar(positions, shown.scores, color=BROWN, width=0.72)
    weights.bar(positions, shown.weights, color=BLUE, width=0.72)
    weights.set_ylim(0, max(1.02, shown.weights.max()))
    curve.plot(shown.rising, shown.weight, color=BLUE, linewidth=1.8)
    if not softmax:
        read = positions[shown.allowed]
        weights.hlines(shown.softmax[shown.allowed], read - 0.36, read + 0.36, color=INK, linewidth=1.2)
        curve.plot(shown.rising, shown.softmax_weight, color=INK, linewidth=0.8)
    for axes in (scores, weights):
        _forbid(axes, ~shown.allowed)
    for axes in (scores, weights, curve):
        _dress(axes)
    curve.set_xticks((shown.rising[0], shown.other, shown.rising[-1]))
    label(scores, "one row of scores", "hatched: not allowed")
    above = int((shown.weights > 0).sum())
    label(weights, "weights", f"{above} of {shown.allowed.sum()} above 0, sum {shown.weights.sum():.2f}")
    label(curve, "weight of one of two", f"by its score; the other's is {shown.other:g}", lines_below=1)
    return figure


def _forbid(axes: Axes, forbidden: NDArray[np.bool_]) -> None:
    for position in np.flatnonzero(forbidden):
        axes.axvspan(position - 0.5, position + 0.5, facecolor="none", edgecolor=FORBIDDEN, hatch="/////", linewidth=0)
    axes.set(xlim=(-0.5, len(forbidden) - 0.5), xticks=[])


def _dress(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GRID)
    axes.grid(axis="y", color=GRID, linewidth=0.5)
    axes.set_axisbelow(True)
