"""Draws saved alignments as heat maps: source symbols along the top, output symbols down the side.

Where the decoder's own states were read, too, they stand to the right of a gap, each by the symbol it wrote.
"""

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
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path as Outline
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
FORBIDDEN, WRONG, MARK, PALE = "#c4c8ce", "#b3261e", "#d95f0e", "#6b7280"
UNIT = np.array([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)])
APART = 0.6  # cells between what was read of the source and the decoder's own states


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
    lettering = lettering_for("".join(symbol for a in alignments for part in (*a[1:4], a.name) for symbol in part))
    panels = [_panel(figure, alignment, cell, lettering) for alignment in alignments]
    fitting = max(1, min(3, 48 // longest))
    columns = 2 if fitting > 1 and len(panels) == 4 else min(fitting, len(panels))
    arrange(figure, panels, columns)
    return figure


def _panel(figure: Figure, alignment: Alignment, cell: float, lettering: Lettering) -> Axes:
    """Draw one alignment, ``cell`` inches a cell, at the figure's lower left corner."""
    steps = len(alignment.weights)
    lefts = _lefts(alignment)
    axes = figure.add_axes((0, 0, (lefts[-1] + 1) * cell, steps * cell))
    axes.set(xlim=(0, lefts[-1] + 1), ylim=(steps, 0))
    for part in _halves(alignment):
        edges = np.append(lefts[part], lefts[part][-1] + 1)
        axes.pcolormesh(
            edges,
            np.arange(steps + 1),
            alignment.weights[:, part],
            cmap=WHITE_TO_BLUE,
            vmin=0,
            vmax=1,
            edgecolors=GRID,
            linewidth=0.4,
        )
        _frame(axes, edges[0], edges[-1], steps)
    axes.spines[:].set_visible(False)
    if alignment.allowed is not None:
        forbid(axes, alignment.allowed, lefts)
    if alignment.centre is not None:
        rows = np.arange(steps) + 0.5
        places = np.interp(alignment.centre, np.arange(len(lefts)), lefts) + 0.5
        axes.scatter(places, rows, s=(14 * cell) ** 2, marker="D", color=MARK, linewidth=0)
    _label(axes, alignment, lettering, size=float(np.clip(0.45 * 72 * cell, 8, 11)))
    return axes


def _halves(alignment: Alignment) -> list[slice]:
    """The columns of the source, then those of the decoder's own states; those there are none of are left out."""
    read, symbols = len(alignment.read), len(alignment.source)
    return [part for part in (slice(0, read), slice(read, symbols)) if part.start < part.stop]


def _lefts(alignment: Alignment) -> NDArray[np.float64]:
    """Where each column begins, in cells."""
    read, symbols = len(alignment.read), len(alignment.source)
    return np.arange(symbols) + APART * (np.arange(symbols) >= read) * bool(read)


def _frame(axes: Axes, left: float, right: float, steps: int) -> None:
    outline = Rectangle((left, 0), right - left, steps, facecolor="none", edgecolor=GRID, linewidth=0.8, clip_on=False)
    axes.add_patch(outline)


def forbid(axes: Axes, allowed: NDArray[np.bool_], lefts: NDArray[np.float64]) -> None:
    """Hatch the cells that may not be read, all in one stroke; ``lefts`` is where each column begins."""
    corners = [(lefts[column], row) for row, column in np.argwhere(~allowed)]
    if corners:
        cells = Outline.make_compound_path(*(Outline(UNIT + corner, closed=True) for corner in corners))
        axes.add_patch(PathPatch(cells, facecolor="none", edgecolor=FORBIDDEN, hatch="/////", linewidth=0))


def _label(axes: Axes, alignment: Alignment, lettering: Lettering, size: float) -> None:
    steps = len(alignment.weights)
    style: dict[str, Any] = {"parse_math": False, "fontfamily": lettering.families, "color": INK}
    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=4, labelsize=size)
    axes.set_xticks(_lefts(alignment) + 0.5, [lettering.shown(s) for s in alignment.source], **style)
    axes.set_yticks(np.arange(steps) + 0.5, [lettering.shown(s) for s in alignment.output], **style)
    _turn_wide(axes, 0.94 * axes.get_window_extent().width / axes.get_xlim()[1])
    width = max(26, int(axes.get_window_extent().width / DPI * 72 / (0.62 * size)))
    axes.set_title(fill(_title(alignment, lettering), width), loc="left", fontsize=size + 1, pad=7, **style)
    below = 6.0
    if alignment.own:
        _name_halves(axes, alignment, size)
        below += 1.4 * size
    if alignment.wrong:
        style["color"] = WRONG
        reference = f"reference: {_written(alignment, alignment.reference, lettering)}"
        axes.set_xlabel(fill(reference, width), loc="left", fontsize=size, labelpad=below, **style)
        axes.xaxis.set_label_position("bottom")


def _title(alignment: Alignment, lettering: Lettering) -> str:
    """What was read and what was written; the latter alone where no source was read."""
    read = lettering.shown(alignment.name) or _said(alignment.read, lettering)
    written = _written(alignment, alignment.output, lettering)
    return (f"{read} \u2192 {written}" if alignment.read else written) + (" \u2717" if alignment.wrong else "")


def _written(alignment: Alignment, symbols: Sequence[str], lettering: Lettering) -> str:
    """Symbols as they are read; of rows of numbers how many there are."""
    return f"{len(symbols)} steps" if alignment.steps else _said(symbols, lettering)


def _name_halves(axes: Axes, alignment: Alignment, size: float) -> None:
    names = ["source", "own states"][-len(_halves(alignment)) :]
    for name, part in zip(names, _halves(alignment), strict=True):
        axes.annotate(
            name,
            (_lefts(alignment)[part.start], len(alignment.weights)),
            xytext=(0, -4),
            textcoords="offset points",
            verticalalignment="top",
            color=PALE,
            fontsize=size - 1,
            annotation_clip=False,
        )


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
