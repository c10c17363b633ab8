"""Draws saved alignments as heat maps: source symbols along the top, output symbols down the side.

Decoder states that were attended to are columns on the right, behind a gap, labeled by the symbols they wrote.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path as VectorPath
from numpy.typing import NDArray

from attnx.data.evenly_spaced import evenly_by_length
from attnx.files.atomic_files import atomic_write
from attnx.reports.figures.fonts import TextFonts, choose_fonts
from attnx.reports.figures.panels import DPI, GRID, Panel, ShownPart, arrange, column_groups, label_heatmap
from attnx.runs.alignments import Alignment, Weights, read_saved_alignments
from attnx.runs.layout import ALIGNMENTS

Format = Literal["png", "svg", "pdf"]
MAX_PICTURES, MAX_PANELS_ON_PAGE, MAX_HEAD_PANELS = 12, 6, 24
PREFERRED_SIZES = range(5, 13)  # symbols on the longer side of examples that are shown first on the page
WHITE_TO_BLUE = LinearSegmentedColormap.from_list(
    "white_to_blue", ["#ffffff", "#dbe9f6", "#a6cbe5", "#5a9fcf", "#1f68ad", "#08306b"]
)
HATCH = "#c4c8ce"
UNIT_SQUARE = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]])
FULL_SCALE_FROM = 0.1  # a largest weight below this ends the color scale, which else ends at 1
CELL, SMALL_CELL = 0.34, 0.2  # inches, with few symbols and with many
WIDTH = 12.8  # inches of all cells of a page from where on they shrink
MAX_SYMBOLS = 64  # across a page, so that each has room for its label; of more a part is shown


class PictureOptions(NamedTuple):
    """How alignments are drawn: with ``marks`` (\u2717, the reference, hatching), and in panels of one size."""

    marks: bool = True
    equal_panels: bool = False


DEFAULT_OPTIONS = PictureOptions()


def draw_alignments(folder: Path | str, form: Format = "png", options: PictureOptions = DEFAULT_OPTIONS) -> list[Path]:
    """Draw alignments of a run folder next to their arrays, evenly from short to long, and up to six on one page.

    Every saved hypothesis of an example has a picture. With several heads, each of the first 24 has a panel next to
    their mean. Saved self-attention of a transformer is drawn as ``NNN-encoder.png`` and ``NNN-decoder.png``. The page
    is the last one.

    Raises:
        UserError: an array file cannot be read or its shapes disagree.
    """
    saved = read_saved_alignments(folder)
    selected = {*evenly_by_length([next(iter(best.values())).source for best in saved], MAX_PICTURES)}
    selected |= {index for index, best in enumerate(saved) if any(item.self_attention for item in best.values())}
    examples = [saved[index] for index in sorted(selected)]
    if not examples:
        return []
    fonts = _choose_fonts([alignment for hypotheses in examples for alignment in hypotheses.values()])
    if fonts.warning:
        print(f"{Path(folder) / ALIGNMENTS}: {fonts.warning}", file=sys.stderr)
    pictures = []
    for hypotheses in examples:
        for rank, (file, alignment) in enumerate(hypotheses.items(), start=1):
            score = "" if alignment.score is None else f", score {alignment.score:.2f}"
            note = f"hypothesis {rank} of {len(hypotheses)}{score}" if len(hypotheses) > 1 else ""
            figure = draw_heads(alignment, note, options=options)
            pictures.append(save_figure(figure, file.with_suffix(f".{form}")))
            for stream, self_attention in alignment.self_attention.items():
                figure = draw_heads(self_attention, stream=stream, options=options)
                pictures.append(save_figure(figure, file.with_name(f"{file.stem}-{stream}.{form}")))
    bests = [next(iter(hypotheses.values())) for hypotheses in examples]
    page = draw_alignments_page(bests, options)
    return [*pictures, save_figure(page, Path(folder) / f"alignments.{form}")]


def save_figure(figure: Figure, path: Path) -> Path:
    """Save a picture reproducibly and return its path."""
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    # Fonts that journals accept.
    with rc_context({"svg.hashsalt": "attnx", "pdf.fonttype": 42}), atomic_write(path) as partial:
        figure.savefig(partial, dpi=DPI, format=path.suffix[1:], metadata=dates.get(path.suffix, {}))
    return path


def draw_means(alignments: Sequence[Alignment], options: PictureOptions = DEFAULT_OPTIONS) -> Figure:
    """Draw the weights of alignments on one page, with one color bar."""
    return _draw([Panel(item, item.weights) for item in alignments], options)


def draw_alignments_page(alignments: Sequence[Alignment], options: PictureOptions = DEFAULT_OPTIONS) -> Figure:
    """Draw up to six alignments on one page, medium lengths first."""
    medium_first = sorted(alignments, key=lambda alignment: max(alignment.weights.shape) not in PREFERRED_SIZES)
    return draw_means(medium_first[:MAX_PANELS_ON_PAGE], options)


def draw_heads(
    alignment: Alignment, note: str = "", stream: str = "", options: PictureOptions = DEFAULT_OPTIONS
) -> Figure:
    """Draw one alignment: its weights, or the mean of its heads and each head, up to 24.

    ``stream`` is that of self-attention, encoder or decoder.
    """
    (_, mean), *heads = alignment.views.items()
    notes = [note, f"mean of {len(heads)} heads"] if heads else [note]
    if len(heads) > MAX_HEAD_PANELS:
        notes.append(f"the first {MAX_HEAD_PANELS} follow")
        heads = heads[:MAX_HEAD_PANELS]
    rows, title = "source" if stream == "encoder" else "output", f"{stream} self-attention" if stream else None
    first = Panel(alignment, mean, rows, title, "; ".join(filter(None, notes)))
    return _draw([first, *(Panel(alignment, weights, rows, name) for name, weights in heads)], options)


def _choose_fonts(alignments: Sequence[Alignment]) -> TextFonts:
    return choose_fonts("".join("".join([*a.source, *a.output, *a.reference, a.name]) for a in alignments))


def _draw(panels: Sequence[Panel], options: PictureOptions) -> Figure:
    across = {1: 1, 2: 2, 4: 2}.get(len(panels), 3 if len(panels) < 10 else 4)  # side by side
    parts = [ShownPart.of(panel.alignment, panel.weights, MAX_SYMBOLS // across) for panel in panels]
    longest = max(max(part.rows, len(part.columns)) for part in parts)
    cell = float(np.clip(WIDTH / (across * longest), SMALL_CELL, CELL))
    sizes = [(cell * (part.lefts[-1] + 1), cell * part.rows) for part in parts]
    if options.equal_panels:
        sizes = [tuple(np.max(sizes, axis=0))] * len(parts)
    figure = Figure(figsize=(1, 1), dpi=DPI)
    FigureCanvasAgg(figure)
    fonts, top = _choose_fonts([panel.alignment for panel in panels]), color_scale_top(panels)
    text_size, maps = float(np.clip(0.45 * 72 * cell, 8, 11)), []
    for panel, part, size in zip(panels, parts, sizes, strict=True):
        axes = figure.add_axes((0, 0, *size))
        axes.set(xlim=(0, part.lefts[-1] + 1), ylim=(part.rows, 0))
        axes.spines[:].set_visible(False)
        for group in column_groups(len(part.columns), part.decoder_states).values():
            draw_cells(axes, panel.weights[: part.rows, part.columns[group]], part.lefts[group], top)
        if options.marks:
            hatch(axes, panel.weights[: part.rows, part.columns] == 0, part.lefts)
        label_heatmap(axes, panel, part, fonts, text_size, options.marks)
        maps.append(axes)
    has_hatch = options.marks and any((panel.weights == 0).any() for panel in panels)
    hatched = Patch(facecolor="none", edgecolor=HATCH, hatch="/////", label="hatched: a weight of exactly 0")
    arrange(figure, maps, across, [hatched] if has_hatch else [])
    return figure


def color_scale_top(panels: Sequence[Panel]) -> float:
    """The weight with the darkest color: 1, or if all weights are small the largest, rounded up to one digit."""
    largest = max(float(np.nan_to_num(panel.weights).max()) for panel in panels)
    if not 0 < largest < FULL_SCALE_FROM:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(largest))
    return math.ceil(round(largest / unit, 6)) * unit


def draw_cells(axes: Axes, weights: Weights, lefts: NDArray[np.float64], darkest: float, row: float = 0.0) -> None:
    """Draw weights (t, m) from a row on, with a frame; ``lefts`` are the left edges of columns."""
    edges, rows = np.append(lefts, lefts[-1] + 1), row + np.arange(len(weights) + 1)
    axes.pcolormesh(edges, rows, weights, cmap=WHITE_TO_BLUE, vmin=0, vmax=darkest, edgecolors=GRID, linewidth=0.4)
    size = edges[-1] - edges[0], len(weights)
    frame = Rectangle((edges[0], row), *size, facecolor="none", edgecolor=GRID, linewidth=0.8, clip_on=False)
    axes.add_patch(frame)


def hatch(axes: Axes, mask: NDArray[np.bool_], lefts: NDArray[np.float64]) -> None:
    """Hatch the cells (t, m) of a mask, as one path; ``lefts`` are the left edges of columns."""
    squares = [
        VectorPath(UNIT_SQUARE + np.array([lefts[column], row]), closed=True) for row, column in np.argwhere(mask)
    ]
    if squares:
        path = VectorPath.make_compound_path(*squares)
        axes.add_patch(PathPatch(path, facecolor="none", edgecolor=HATCH, hatch="/////", linewidth=0))
