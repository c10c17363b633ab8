"""Draws saved alignments as heat maps: source symbols along the top, output symbols down the side.

Decoder states that were attended to are columns on the right, behind a gap, labeled by the symbols they wrote.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from numpy.typing import NDArray

from attnx.data.evenly_spaced import evenly_by_length
from attnx.reports.figures.fonts import TextFonts, choose_fonts
from attnx.reports.figures.grid_layout import DPI, GRID, arrange
from attnx.reports.figures.local_windows import LocalWindow, read_window, view_window
from attnx.reports.figures.tick_labels import HeatmapLabels, column_groups
from attnx.runs.alignments import Alignment, Weights, read_saved_alignments
from attnx.runs.layout import ALIGNMENTS, RUN_JSON
from attnx.runs.run import read_run

Format = Literal["png", "svg"]
MAX_PICTURES, MAX_PANELS_ON_PAGE, MAX_HEAD_PANELS = 12, 6, 24
PREFERRED_SIZES = range(5, 13)  # symbols on the longer side of examples that are shown first on the page
WHITE_TO_BLUE = LinearSegmentedColormap.from_list(
    "white_to_blue", ["#ffffff", "#dbe9f6", "#a6cbe5", "#5a9fcf", "#1f68ad", "#08306b"]
)
MARK = "#d95f0e"
FULL_SCALE_FROM = 0.1  # a largest weight below this ends the color scale, which else ends at 1
GROUP_GAP = 0.6  # cells between the source columns and those of the decoder states
CELL, SMALL_CELL = 0.34, 0.2  # inches, with few symbols and with many
MAX_WIDTH, MAX_HEIGHT = 20.0, 32.0  # inches of all cells on a page; cells shrink to fit
MIN_BORDERED_CELL = 0.1  # inches; smaller cells have no border
MAX_VECTOR_CELLS = 20_000  # panels with more cells are raster images in an SVG


class Panel(NamedTuple):
    """One heat map of a page: an alignment's weights (t, m), or those of one of its heads.

    ``title`` is None for the alignment's own, ``note`` is a line below it.
    """

    alignment: Alignment
    weights: Weights
    window: LocalWindow | None = None
    title: str | None = None
    note: str = ""


def draw_alignments(folder: Path | str, form: Format = "png") -> list[Path]:
    """Draw alignments of a run folder next to their arrays, evenly from short to long, and up to six on one page.

    Every saved hypothesis of an example has a picture. With several heads, each of the first 24 has a panel next to
    their mean. Saved self-attention of a transformer is drawn as ``NNN-encoder.png`` and ``NNN-decoder.png``. The page
    is the last one.

    Raises:
        UserError: an array file cannot be read or its shapes disagree.
    """
    examples = _select(read_saved_alignments(folder))
    if not examples:
        return []
    window = read_window(read_run(folder).config) if (Path(folder) / RUN_JSON).is_file() else None
    fonts = _choose_fonts([alignment for hypotheses in examples for alignment in hypotheses.values()])
    if fonts.warning:
        print(f"{Path(folder) / ALIGNMENTS}: {fonts.warning}", file=sys.stderr)
    pictures = []
    for hypotheses in examples:
        for rank, (file, alignment) in enumerate(hypotheses.items(), start=1):
            score = "" if alignment.score is None else f", score {alignment.score:.2f}"
            note = f"hypothesis {rank} of {len(hypotheses)}{score}" if len(hypotheses) > 1 else ""
            pictures.append(save_figure(draw_heads(alignment, window, note), file.with_suffix(f".{form}")))
            for stream, self_attention in alignment.self_attention.items():
                figure = draw_heads(self_attention, title=f"{stream} self-attention")
                pictures.append(save_figure(figure, file.with_name(f"{file.stem}-{stream}.{form}")))
    bests = [next(iter(hypotheses.values())) for hypotheses in examples]
    return [*pictures, save_figure(draw_alignments_page(bests, window), Path(folder) / f"alignments.{form}")]


def save_figure(figure: Figure, path: Path) -> Path:
    """Save a picture reproducibly and return its path."""
    with rc_context({"svg.hashsalt": "attnx"}):
        figure.savefig(path, dpi=DPI, metadata={"Date": None} if path.suffix == ".svg" else {})
    return path


def draw_means(alignments: Sequence[Alignment], window: LocalWindow | None = None) -> Figure:
    """Draw the weights of alignments on one page, with cells of one size and one color bar."""
    return _draw([Panel(item, item.weights, view_window(window, item, "mean")) for item in alignments])


def draw_alignments_page(alignments: Sequence[Alignment], window: LocalWindow | None = None) -> Figure:
    """Draw up to six alignments on one page, those of medium length first."""
    medium_first = sorted(alignments, key=lambda alignment: max(alignment.weights.shape) not in PREFERRED_SIZES)
    return draw_means(medium_first[:MAX_PANELS_ON_PAGE], window)


def draw_heads(
    alignment: Alignment, window: LocalWindow | None = None, note: str = "", title: str | None = None
) -> Figure:
    """Draw one alignment: its weights, or the mean of its heads and each head, up to 24."""
    (view, mean), *heads = alignment.views.items()
    notes = [note, f"mean of {len(heads)} heads"] if heads else [note]
    if len(heads) > MAX_HEAD_PANELS:
        notes.append(f"the first {MAX_HEAD_PANELS} follow")
        heads = heads[:MAX_HEAD_PANELS]
    first = Panel(alignment, mean, view_window(window, alignment, view), title, "; ".join(filter(None, notes)))
    return _draw([first, *(Panel(alignment, weights, window, title=name) for name, weights in heads)])


def _select(examples: Sequence[dict[Path, Alignment]]) -> list[dict[Path, Alignment]]:
    """The examples to draw, in order: evenly from short to long, and those with saved self-attention."""
    selected = set(evenly_by_length([next(iter(best.values())).source for best in examples], MAX_PICTURES))
    selected |= {
        index for index, hypotheses in enumerate(examples) if any(best.self_attention for best in hypotheses.values())
    }
    return [examples[index] for index in sorted(selected)]


def _choose_fonts(alignments: Sequence[Alignment]) -> TextFonts:
    return choose_fonts("".join("".join([*a.source, *a.output, *a.reference, a.name]) for a in alignments))


def _draw(panels: Sequence[Panel]) -> Figure:
    columns, cell = _grid(panels)
    figure = Figure(figsize=(1, 1), dpi=DPI)
    FigureCanvasAgg(figure)
    fonts, top = _choose_fonts([panel.alignment for panel in panels]), color_scale_top(panels)
    arrange(figure, [_draw_panel(figure, panel, cell, fonts, top) for panel in panels], columns, _legend(panels))
    return figure


def color_scale_top(panels: Sequence[Panel]) -> float:
    """The weight with the darkest color: 1, or if all weights are small the largest, rounded up to one digit."""
    largest = max(float(np.nan_to_num(panel.weights).max()) for panel in panels)
    if not 0 < largest < FULL_SCALE_FROM:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(largest))
    return math.ceil(round(largest / unit, 6)) * unit


def _legend(panels: Sequence[Panel]) -> list[Artist]:
    """What explains the windows, if any are drawn."""
    if all(panel.window is None for panel in panels):
        return []
    return [Patch(facecolor="none", edgecolor=MARK, linewidth=1.1, label="outlined: the local window")]


def _grid(panels: Sequence[Panel]) -> tuple[int, float]:
    """Number of columns, and the size of a cell in inches, as large as fits."""
    rows, columns = np.max([panel.weights.shape for panel in panels], axis=0)
    longest = max(rows, columns)
    fitting = max(1, min(3, 48 // longest))
    preferred = 2 if fitting > 1 and len(panels) == 4 else min(fitting, len(panels))
    cell = float(np.clip(CELL * 20 / longest, SMALL_CELL, CELL))

    def cell_size(across: int) -> float:
        return float(min(cell, MAX_WIDTH / (across * columns), MAX_HEIGHT / (-(-len(panels) // across) * rows)))

    best = max(range(1, len(panels) + 1), key=lambda across: (cell_size(across), across == preferred, -across))
    return best, cell_size(best)


def _draw_panel(figure: Figure, panel: Panel, cell: float, fonts: TextFonts, top: float) -> Axes:
    """Draw one heat map at the figure's lower left corner; a cell has ``cell`` inches, ``top`` is darkest."""
    alignment, steps = panel.alignment, len(panel.weights)
    columns = len(alignment.source), alignment.num_decoder_states
    lefts, groups = left_edges(*columns), column_groups(*columns).values()
    axes = figure.add_axes((0, 0, (lefts[-1] + 1) * cell, steps * cell))
    axes.set(xlim=(0, lefts[-1] + 1), ylim=(steps, 0))
    axes.spines[:].set_visible(False)
    for group in groups:
        draw_cells(axes, panel.weights[:, group], lefts[group], top, has_borders=cell >= MIN_BORDERED_CELL)
        axes.collections[-1].set_rasterized(panel.weights.size > MAX_VECTOR_CELLS)
    if panel.window is not None:
        mask = panel.window.mask(panel.weights, alignment.num_decoder_states)
        for group in groups:
            outline(axes, mask[:, group], lefts[group])
    size = float(np.clip(0.45 * 72 * cell, 8, 11))
    HeatmapLabels(alignment, fonts, size, lefts, panel.title, panel.note).write(axes)
    return axes


def draw_cells(
    axes: Axes, weights: Weights, lefts: NDArray[np.float64], darkest: float, row: float = 0.0, has_borders: bool = True
) -> None:
    """Draw weights (t, m) from a row on, with a frame; ``lefts`` are the left edges of columns."""
    edges, rows = np.append(lefts, lefts[-1] + 1), row + np.arange(len(weights) + 1)
    border: dict[str, Any] = {"edgecolors": GRID, "linewidth": 0.4} if has_borders else {}
    axes.pcolormesh(edges, rows, weights, cmap=WHITE_TO_BLUE, vmin=0, vmax=darkest, **border)
    size = edges[-1] - edges[0], len(weights)
    frame = Rectangle((edges[0], row), *size, facecolor="none", edgecolor=GRID, linewidth=0.8, clip_on=False)
    axes.add_patch(frame)


def left_edges(columns: int, decoder_states: int) -> NDArray[np.float64]:
    """Left edge of each column, in cells; a gap separates the decoder states from the source."""
    source, positions = columns - decoder_states, np.arange(columns)
    return positions + GROUP_GAP * (positions >= source) * bool(source)


def outline(axes: Axes, mask: NDArray[np.bool_], lefts: NDArray[np.float64]) -> None:
    """Outline the cells (t, m) of a mask along their outer edges; columns are adjacent."""
    padded = np.pad(mask, 1)
    vertical = np.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1])
    horizontal = np.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1])
    lines = [[(lefts[0] + x, y), (lefts[0] + x, y + 1)] for y, x in vertical]
    lines += [[(lefts[0] + x, y), (lefts[0] + x + 1, y)] for y, x in horizontal]
    axes.add_collection(LineCollection(lines, colors=MARK, linewidths=1.1, capstyle="projecting", clip_on=False))
