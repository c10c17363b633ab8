"""Draws saved alignments as heat maps: source symbols along the top, output symbols down the side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from attnx.reports.alignment import END, Alignment, read_alignment, without_end
from attnx.reports.lettering import Lettering, lettering_for
from attnx.reports.page import DPI, GRID, INK, arrange
from attnx.run_format import ALIGNMENTS

SHOWN = 6
PAGED = range(5, 13)  # symbols on the longer side of what is shown on the page, as far as there are enough
WHITE_TO_BLUE = LinearSegmentedColormap.from_list(
    "white_to_blue", ["#ffffff", "#dbe9f6", "#a6cbe5", "#5a9fcf", "#1f68ad", "#08306b"]
)
FORBIDDEN, WRONG, MARK = "#c4c8ce", "#b3261e", "#d95f0e"


def draw_alignments(folder: Path | str) -> list[Path]:
    """Draw every alignment of a run folder beside its array, and up to six on one page, alignments.png.

    Returns:
        the pictures written, the page last; nothing when the run kept no alignments.

    Raises:
        UserError: an array file cannot be read or its shapes disagree.
    """
    arrays = sorted((Path(folder) / ALIGNMENTS).glob("*.npz"))
    alignments = [read_alignment(array) for array in arrays]
    if not alignments:
        return []
    pictures = [array.with_suffix(".png") for array in arrays]
    for alignment, path in zip(alignments, pictures, strict=True):
        picture([alignment]).savefig(path, dpi=DPI)
    page = Path(folder) / "alignments.png"
    middling_first = sorted(alignments, key=lambda alignment: max(alignment.weights.shape) not in PAGED)
    picture(middling_first[:SHOWN]).savefig(page, dpi=DPI)
    return [*pictures, page]


def draw_alignment(npz_path: Path | str, png_path: Path | str) -> None:
    """Draw one saved alignment.

    Raises:
        UserError: the array file cannot be read or its shapes disagree.
    """
    picture([read_alignment(npz_path)]).savefig(png_path, dpi=DPI)


def picture(alignments: Sequence[Alignment]) -> Figure:
    """Lay alignments out on one page, cells of one size, with one colour bar; ready to be saved."""
    longest = max(max(alignment.weights.shape) for alignment in alignments)
    cell = float(np.clip(0.34 * 20 / longest, 0.2, 0.34))
    figure = Figure(figsize=(1, 1), dpi=DPI)
    FigureCanvasAgg(figure)
    lettering = lettering_for("".join(symbol for a in alignments for part in a[1:4] for symbol in part))
    panels = [_panel(figure, alignment, cell, lettering) for alignment in alignments]
    fitting = max(1, min(3, 48 // longest))
    columns = 2 if fitting > 1 and len(panels) == 4 else min(fitting, len(panels))
    arrange(figure, panels, columns)
    return figure


def _panel(figure: Figure, alignment: Alignment, cell: float, lettering: Lettering) -> Axes:
    """Draw one alignment, ``cell`` inches a cell, at the figure's lower left corner."""
    steps, symbols = alignment.weights.shape
    axes = figure.add_axes((0, 0, symbols * cell, steps * cell))
    axes.pcolormesh(alignment.weights, cmap=WHITE_TO_BLUE, vmin=0, vmax=1, edgecolors=GRID, linewidth=0.4)
    axes.set(xlim=(0, symbols), ylim=(steps, 0))
    axes.spines[:].set_color(GRID)
    if alignment.allowed is not None:
        _forbid(axes, alignment.allowed)
    if alignment.centre is not None:
        rows = np.arange(steps) + 0.5
        axes.scatter(alignment.centre + 0.5, rows, s=(14 * cell) ** 2, marker="D", color=MARK, linewidth=0)
    _label(axes, alignment, lettering, size=float(np.clip(0.45 * 72 * cell, 8, 11)))
    return axes


def _forbid(axes: Axes, allowed: NDArray[np.bool_]) -> None:
    for row, column in np.argwhere(~allowed):
        axes.add_patch(
            Rectangle((column, row), 1, 1, facecolor="none", edgecolor=FORBIDDEN, hatch="/////", linewidth=0)
        )


def _label(axes: Axes, alignment: Alignment, lettering: Lettering, size: float) -> None:
    steps, symbols = alignment.weights.shape
    style: dict[str, Any] = {"parse_math": False, "fontfamily": lettering.families, "color": INK}
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=4, labelsize=size)
    axes.set_xticks(np.arange(symbols) + 0.5, [lettering.shown(s) for s in alignment.source], **style)
    axes.set_yticks(np.arange(steps) + 0.5, [lettering.shown(s) for s in alignment.output], **style)
    _turn_wide(axes, 0.94 * axes.get_window_extent().width / symbols)
    said = [_said(part, lettering) for part in (alignment.source, alignment.output, alignment.reference)]
    width = max(26, int(axes.get_window_extent().width / DPI * 72 / (0.62 * size)))
    mark = " \u2717" if alignment.wrong else ""
    title = fill(f"{said[0]} \u2192 {said[1]}{mark}", width)
    axes.set_title(title, loc="left", fontsize=size + 1, pad=7, **style)
    if alignment.wrong:
        style["color"] = WRONG
        axes.set_xlabel(fill(f"reference: {said[2]}", width), loc="left", fontsize=size, labelpad=6, **style)
        axes.xaxis.set_label_position("bottom")


def _turn_wide(axes: Axes, most: float) -> None:
    """Stand the labels on end, all if one is wider than ``most`` pixels; the end symbol turns alone."""
    labels = axes.get_xticklabels()
    wide = {label.get_text() for label in labels if label.get_window_extent().width > most}
    for label in labels:
        if wide - {END} or label.get_text() in wide:
            label.set_rotation(90)


def _said(symbols: Iterable[str], lettering: Lettering) -> str:
    """A word's letters run together; longer symbols keep their spaces."""
    words = without_end(symbols)
    return ("" if all(len(word) == 1 for word in words) else " ").join(map(lettering.shown, words))
