"""Draws saved alignments as heat maps: source symbols along the top, output symbols down the side.

Where the decoder's own states were read, too, they stand to the right of a gap, each by the symbol it wrote.
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
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path as Outline
from numpy.typing import NDArray

from attnx.data.evenly_spaced import evenly
from attnx.reports.figures.fonts import Lettering, lettering_for
from attnx.reports.figures.grid_layout import DPI, GRID, arrange
from attnx.reports.figures.local_windows import Window, window_of
from attnx.reports.figures.tick_labels import Labels, halves
from attnx.runs.alignments import Alignment, Weights, read_alignment, read_examples
from attnx.runs.layout import ALIGNMENTS, RUN
from attnx.runs.run import read_run

Format = Literal["png", "svg"]
DRAWN, SHOWN = 12, 6  # examples of a run that get a picture, and those that stand on the page
PAGED = range(5, 13)  # symbols on the longer side of what is shown on the page, as far as there are enough
WHITE_TO_BLUE = LinearSegmentedColormap.from_list(
    "white_to_blue", ["#ffffff", "#dbe9f6", "#a6cbe5", "#5a9fcf", "#1f68ad", "#08306b"]
)
FORBIDDEN, MARK = "#c4c8ce", "#d95f0e"
LITTLE = 0.1  # where no weight is larger, the scale ends at the largest instead of 1
UNIT = np.array([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)])
APART = 0.6  # cells between what was read of the source and the decoder's own states
CELL, SMALL_CELL = 0.34, 0.2  # inches, of few symbols and of many
WIDEST, HIGHEST = 20.0, 32.0  # inches that the cells of a page may take together; then they shrink
FAINT = 0.1  # inches of a cell below which it has no border
MANY = 20_000  # cells of a panel, from which on an SVG holds them as an image


class Panel(NamedTuple):
    """One heat map of a page: an alignment's weights, or those of one of its heads.

    Attributes:
        alignment: whose symbols.
        weights: (t, m).
        window: what the scope's window was, if it had one.
        title: None for that of the alignment.
        note: a line below the title.
    """

    alignment: Alignment
    weights: Weights
    window: Window | None = None
    title: str | None = None
    note: str = ""


def draw_alignments(folder: Path | str, form: Format = "png") -> list[Path]:
    """Draw alignments of a run folder, evenly from short to long, beside their arrays, and up to six on one page.

    An example of which several hypotheses were kept has a picture of each; one that was read by several heads has a
    panel of each beside their mean. What the streams of a transformer read of themselves, ``NNN-encoder.png`` and
    ``NNN-decoder.png``, is drawn of the examples of which it was kept.

    Returns:
        the pictures written, the page last; nothing when the run kept no alignments.

    Raises:
        UserError: an array file cannot be read or its shapes disagree.
    """
    examples = _evenly(read_examples(folder))
    if not examples:
        return []
    window = window_of(read_run(folder).config) if (Path(folder) / RUN).is_file() else None
    lettering = _lettering([alignment for hypotheses in examples for alignment in hypotheses.values()])
    if lettering.lacking:
        print(f"{Path(folder) / ALIGNMENTS}: {lettering.lacking}", file=sys.stderr)
    written = []
    for hypotheses in examples:
        for rank, (file, alignment) in enumerate(hypotheses.items(), start=1):
            note = _ranked(alignment, rank, len(hypotheses))
            written.append(save(whole_picture(alignment, window, note), file.with_suffix(f".{form}")))
            for stream, read in alignment.of_itself.items():
                drawn = whole_picture(read, title=f"{stream} self-attention")
                written.append(save(drawn, file.with_name(f"{file.stem}-{stream}.{form}")))
    bests = [next(iter(hypotheses.values())) for hypotheses in examples]
    return [*written, save(page(bests, window), Path(folder) / f"alignments.{form}")]


def draw_alignment(npz_path: Path | str, png_path: Path | str) -> None:
    """Draw one saved alignment, as PNG or SVG by the name of the picture.

    Raises:
        UserError: the array file cannot be read or its shapes disagree.
    """
    save(whole_picture(read_alignment(npz_path)), Path(png_path))


def save(figure: Figure, path: Path) -> Path:
    """Save a picture, and say where; the same picture is the same file."""
    with rc_context({"svg.hashsalt": "attnx"}):
        figure.savefig(path, dpi=DPI, metadata={"Date": None} if path.suffix == ".svg" else {})
    return path


def picture(alignments: Sequence[Alignment], window: Window | None = None) -> Figure:
    """Lay alignments out on one page, cells of one size, with one color bar; ready to be saved."""
    return _laid_out([Panel(alignment, alignment.weights, _of_mean(window, alignment)) for alignment in alignments])


def page(alignments: Sequence[Alignment], window: Window | None = None) -> Figure:
    """Up to six alignments on one page, those of middling length first."""
    middling_first = sorted(alignments, key=lambda alignment: max(alignment.weights.shape) not in PAGED)
    return picture(middling_first[:SHOWN], window)


def whole_picture(
    alignment: Alignment, window: Window | None = None, note: str = "", title: str | None = None
) -> Figure:
    """Everything that was kept of one alignment: its weights, or the mean of its heads and then each."""
    views = alignment.views
    (_, mean), *heads = views.items()
    noted = [note, f"mean of {len(heads)} heads"] if heads else [note]
    first = Panel(alignment, mean, _of_mean(window, alignment), title, "; ".join(filter(None, noted)))
    return _laid_out([first, *(Panel(alignment, weights, window, title=name) for name, weights in heads)])


def _of_mean(window: Window | None, alignment: Alignment) -> Window | None:
    """The window that holds for the mean of the heads: none where each predicts its own."""
    return None if window and alignment.heads is not None and not window.monotonic else window


def _evenly(examples: Sequence[dict[Path, Alignment]]) -> list[dict[Path, Alignment]]:
    """Those that are drawn, in their order: evenly from short to long, and those of which more was kept."""
    sizes = [len(next(iter(hypotheses.values())).source) for hypotheses in examples]
    by_length = np.argsort(sizes, kind="stable")
    more = {place for place, held in enumerate(examples) if any(one.of_itself for one in held.values())}
    return [examples[place] for place in sorted(more.union(by_length[evenly(len(examples), DRAWN)].tolist()))]


def _ranked(alignment: Alignment, rank: int, ranks: int) -> str:
    """Which of several hypotheses it is."""
    if ranks == 1:
        return ""
    return f"hypothesis {rank} of {ranks}" + ("" if alignment.score is None else f", score {alignment.score:.2f}")


def _lettering(alignments: Sequence[Alignment]) -> Lettering:
    return lettering_for("".join(symbol for a in alignments for part in (*a[1:4], a.name) for symbol in part))


def _laid_out(panels: Sequence[Panel]) -> Figure:
    columns, cell = _grid(panels)
    figure = Figure(figsize=(1, 1), dpi=DPI)
    FigureCanvasAgg(figure)
    lettering, top = _lettering([panel.alignment for panel in panels]), scale_top(panels)
    arrange(figure, [_draw(figure, panel, cell, lettering, top) for panel in panels], columns, _signs(panels))
    return figure


def scale_top(panels: Sequence[Panel]) -> float:
    """The weight that is darkest: 1, or where all weights are faint the largest of them, rounded up to a digit."""
    largest = max(float(np.nanmax(panel.weights)) for panel in panels)
    if not 0 < largest < LITTLE:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(largest))
    return math.ceil(round(largest / unit, 6)) * unit


def _signs(panels: Sequence[Panel]) -> list[Artist]:
    """What a legend has to explain of these panels."""
    found: list[Artist] = []
    if any(panel.window is not None for panel in panels):
        found.append(
            Patch(facecolor="none", edgecolor=MARK, linewidth=1.1, label="outlined: the window that could be read")
        )
    if any(panel.alignment.allowed is not None for panel in panels):
        hatched = "hatched: could not be read"
        found.append(Patch(facecolor="none", edgecolor=FORBIDDEN, hatch="/////", linewidth=0, label=hatched))
    if any(panel.alignment.center is not None for panel in panels):
        found.append(
            Line2D([], [], color=MARK, marker="D", markersize=4, linewidth=0, label="the center of the window")
        )
    return found


def _grid(panels: Sequence[Panel]) -> tuple[int, float]:
    """How many panels stand side by side, and how many inches a cell is: as large as fits."""
    high, wide = np.max([panel.weights.shape for panel in panels], axis=0)
    longest = max(high, wide)
    fitting = max(1, min(3, 48 // longest))
    usual = 2 if fitting > 1 and len(panels) == 4 else min(fitting, len(panels))
    cell = float(np.clip(CELL * 20 / longest, SMALL_CELL, CELL))

    def room(columns: int) -> float:
        return float(min(cell, WIDEST / (columns * wide), HIGHEST / (-(-len(panels) // columns) * high)))

    columns = max(range(1, len(panels) + 1), key=lambda columns: (room(columns), columns == usual, -columns))
    return columns, room(columns)


def _draw(figure: Figure, panel: Panel, cell: float, lettering: Lettering, top: float) -> Axes:
    """Draw one heat map, ``cell`` inches a cell and darkest at ``top``, at the figure's lower left corner."""
    alignment, steps = panel.alignment, len(panel.weights)
    lefts = _lefts(alignment)
    axes = figure.add_axes((0, 0, (lefts[-1] + 1) * cell, steps * cell))
    axes.set(xlim=(0, lefts[-1] + 1), ylim=(steps, 0))
    border: dict[str, Any] = {"edgecolors": GRID, "linewidth": 0.4} if cell >= FAINT else {}
    for part in halves(alignment).values():
        edges, rows = np.append(lefts[part], lefts[part][-1] + 1), np.arange(steps + 1)
        mesh = axes.pcolormesh(edges, rows, panel.weights[:, part], cmap=WHITE_TO_BLUE, vmin=0, vmax=top, **border)
        mesh.set_rasterized(panel.weights.size > MANY)
        frame = Rectangle((edges[0], 0), edges[-1] - edges[0], steps, facecolor="none", edgecolor=GRID, linewidth=0.8)
        frame.set_clip_on(False)
        axes.add_patch(frame)
    axes.spines[:].set_visible(False)
    if alignment.allowed is not None:
        forbid(axes, alignment.allowed, lefts)
    if alignment.center is not None:
        places = np.interp(alignment.center, np.arange(len(lefts)), lefts) + 0.5
        axes.scatter(places, np.arange(steps) + 0.5, s=(14 * cell) ** 2, marker="D", color=MARK, linewidth=0)
    if panel.window is not None:
        for part in halves(alignment).values():
            outline(axes, panel.window.holds(panel.weights, alignment.own)[:, part], lefts[part])
    size = float(np.clip(0.45 * 72 * cell, 8, 11))
    Labels(alignment, lettering, size, lefts, panel.title, panel.note).write(axes)
    return axes


def _lefts(alignment: Alignment) -> NDArray[np.float64]:
    """Where each column begins, in cells."""
    read, symbols = len(alignment.read), len(alignment.source)
    return np.arange(symbols) + APART * (np.arange(symbols) >= read) * bool(read)


def forbid(axes: Axes, allowed: NDArray[np.bool_], lefts: NDArray[np.float64]) -> None:
    """Hatch the cells that may not be read, all in one stroke; ``lefts`` is where each column begins."""
    corners = [(lefts[column], row) for row, column in np.argwhere(~allowed)]
    if corners:
        cells = Outline.make_compound_path(*(Outline(UNIT + corner, closed=True) for corner in corners))
        axes.add_patch(PathPatch(cells, facecolor="none", edgecolor=FORBIDDEN, hatch="/////", linewidth=0))


def outline(axes: Axes, held: NDArray[np.bool_], lefts: NDArray[np.float64]) -> None:
    """Draw a line around the cells (t, m) that are held, along their outer edges; columns are neighbors."""
    padded = np.pad(held, 1)
    upright = [(row, column) for row, column in np.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1])]
    level = [(row, column) for row, column in np.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1])]
    lines = [[(lefts[0] + x, y), (lefts[0] + x, y + 1)] for y, x in upright]
    lines += [[(lefts[0] + x, y), (lefts[0] + x + 1, y)] for y, x in level]
    axes.add_collection(LineCollection(lines, colors=MARK, linewidths=1.1, capstyle="projecting", clip_on=False))
