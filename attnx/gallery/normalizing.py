"""Draws a normalizer: the weights of one row of scores, and one weight as its score rises, compared with softmax."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnx.gallery.readings import Numbers, label, make_panels
from attnx.reports.figures.grid_layout import GRID, INK
from attnx.reports.figures.heatmaps import FORBIDDEN

BROWN, BLUE = "#ee9a52", "#1f68ad"


class NormalizerResponse(NamedTuple):
    """Weights that a normalizer gives to scores.

    Attributes:
        scores: (m,) one row.
        allowed_mask: (m,) bool.
        weights: (m,).
        softmax: (m,) the weights by softmax.
        sweep: (n,) scores of one of two positions; the score of the second is fixed.
        sweep_weights: (n,) its weights.
        sweep_softmax: (n,) its weights by softmax.
        fixed_score: of the second position.
    """

    scores: Numbers
    allowed_mask: NDArray[np.bool_]
    weights: Numbers
    softmax: Numbers
    sweep: Numbers
    sweep_weights: Numbers
    sweep_softmax: Numbers
    fixed_score: float


def draw_normalizer(response: NormalizerResponse, title: str) -> Figure:
    """Draw one row of scores, its weights, and the weight of one of two positions as its score rises."""
    is_softmax = np.array_equal(response.weights, response.softmax)
    note = "" if is_softmax else "Dark lines: softmax of the same scores."
    figure, (scores, weights, curve) = make_panels(title, note, gap=0.36)
    positions = np.arange(len(response.scores))
    scores.bar(positions, response.scores, color=BROWN, width=0.72)
    weights.bar(positions, response.weights, color=BLUE, width=0.72)
    weights.set_ylim(0, max(1.02, response.weights.max()))
    curve.plot(response.sweep, response.sweep_weights, color=BLUE, linewidth=1.8)
    if not is_softmax:
        bars = positions[response.allowed_mask]
        weights.hlines(response.softmax[response.allowed_mask], bars - 0.36, bars + 0.36, color=INK, linewidth=1.2)
        curve.plot(response.sweep, response.sweep_softmax, color=INK, linewidth=0.8)
    for axes in (scores, weights):
        _hatch(axes, ~response.allowed_mask)
    for axes in (scores, weights, curve):
        _style(axes)
    curve.set_xticks((response.sweep[0], response.fixed_score, response.sweep[-1]))
    label(scores, "one row of scores", "hatched: not allowed")
    positive, allowed = int((response.weights > 0).sum()), response.allowed_mask.sum()
    label(weights, "weights", f"{positive} of {allowed} above 0, sum {response.weights.sum():.2f}")
    label(curve, "weight of one of two", f"by its score; the second has {response.fixed_score:g}", lines_below=1)
    return figure


def _hatch(axes: Axes, mask: NDArray[np.bool_]) -> None:
    for position in np.flatnonzero(mask):
        axes.axvspan(position - 0.5, position + 0.5, facecolor="none", edgecolor=FORBIDDEN, hatch="/////", linewidth=0)
    axes.set(xlim=(-0.5, len(mask) - 0.5), xticks=[])


def _style(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GRID)
    axes.grid(axis="y", color=GRID, linewidth=0.5)
    axes.set_axisbelow(True)
