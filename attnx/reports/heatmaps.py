"""Draws saved alignments as heat maps: source symbols along the top, output symbols down the side."""

from __future__ import annotations

import unicodedata
import zipfile
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from attnx.errors import UserError
from attnx.run_format import ALIGNMENTS

DPI = 150
SHOWN = 6
END = "</s>"
WHITE_TO_BLUE = LinearSegmentedColormap.from_list(
    "white_to_blue", ["#ffffff", "#dbe9f6", "#a6cbe5", "#5a9fcf", "#1f68ad", "#08306b"]
)
INK, FORBIDDEN, GRID, WRONG, MARK = "#222222", "#c4c8ce", "#dfe3e8", "#b3261e", "#d95f0e"
GAP, EDGE, BAR = 0.35, 0.15, 0.11  # inches: between panels, around the page, the colour bar's width
# Fonts that have a placeholder for everything, cannot be rasterised, or put other glyphs at known codes.
USELESS_FONTS = ("Last Resort", "Noto Color Emoji", "STIXNonUnicode", "cm")


class Alignment(NamedTuple):
    """One saved alignment: weights (t, s), the symbols, and what a scope allowed or centred on, if saved."""

    weights: NDArray[np.float32]
    source: tuple[str, ...]
    output: tuple[str, ...]
    reference: tuple[str, ...]
    allowed: NDArray[np.bool_] | None = None
    centre: NDArray[np.float32] | None = None

    @property
    def wrong(self) -> bool:
        """Whether the output differs from the reference, end symbols aside."""
        return _words(self.output) != _words(self.reference)


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
    shortest_first = sorted(alignments, key=lambda alignment: max(alignment.weights.shape) > 24)
    picture(shortest_first[:SHOWN]).savefig(page, dpi=DPI)
    return [*pictures, page]


def draw_alignment(npz_path: Path | str, png_path: Path | str) -> None:
    """Draw one saved alignment.

    Raises:
        UserError: the array file cannot be read or its shapes disagree.
    """
    picture([read_alignment(npz_path)]).savefig(png_path, dpi=DPI)


def read_alignment(path: Path | str) -> Alignment:
    """Read weights (t, s), source (s,), output (t,), reference (r,), and any allowed (t, s), centre (t,).

    Raises:
        UserError: the array file cannot be read or its shapes disagree.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            found: dict[str, Any] = {name: arrays[name] for name in Alignment._fields if name in arrays}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: not a readable alignment: {error}") from error
    if missing := {"weights", "source", "output", "reference"} - found.keys():
        raise UserError(f"{path}: not an alignment, it lacks {', '.join(sorted(missing))}")
    steps, symbols = found["output"].size, found["source"].size
    expected = {"weights": (steps, symbols), "allowed": (steps, symbols), "centre": (steps,)}
    for name, shape in expected.items():
        if name in found and found[name].shape != shape:
            raise UserError(f"{path}: {name} is {found[name].shape} where output and source make it {shape}")
    if not steps or not symbols:
        raise UserError(f"{path}: an empty alignment")
    for name in ("source", "output", "reference"):
        found[name] = tuple(map(str, found[name]))
    if "allowed" in found:
        found["allowed"] = found["allowed"].astype(np.bool_)
    return Alignment(**found)


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
    _arrange(figure, panels, columns)
    return figure


class Lettering(NamedTuple):
    """The fonts that together hold the characters of a picture, and the characters that none of them has."""

    families: list[str]
    missing: frozenset[str]

    def shown(self, symbol: str) -> str:
        """Return what to write for a symbol: a visible space, U+XXXX for what no font has, else itself."""
        if symbol and unicodedata.combining(symbol[0]) and "\u25cc" not in self.missing:
            symbol = "\u25cc" + symbol
        return "".join(f"U+{ord(c):04X}" if c in self.missing else c for c in symbol.replace(" ", "\u2423"))


def lettering_for(text: str) -> Lettering:
    """Choose fonts for a text: DejaVu Sans, then whichever installed fonts add characters it lacks."""
    needed = {character for character in text if character.isprintable()} | set("\u2423\u25cc\u2192\u2717")
    families = ["DejaVu Sans"]
    missing = needed - _characters(font_manager.findfont("DejaVu Sans"))
    installed = {font.name: font.fname for font in font_manager.fontManager.ttflist if _plain(font)}
    for family in sorted(installed) if missing else ():
        if missing & _characters(installed[family]):
            families.append(family)
            missing -= _characters(installed[family])
    return Lettering(families, frozenset(missing | (set(text) - needed)))


def _plain(font: font_manager.FontEntry) -> bool:
    upright = font.style == "normal" and str(font.weight) in {"400", "normal"}
    return upright and not font.name.startswith(USELESS_FONTS)


@lru_cache
def _characters(file: str) -> frozenset[str]:
    return frozenset(map(chr, font_manager.get_font(file).get_charmap()))


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


def _words(symbols: Iterable[str]) -> tuple[str, ...]:
    return tuple(symbol for symbol in symbols if symbol != END)


def _said(symbols: Iterable[str], lettering: Lettering) -> str:
    """A word's letters run together; longer symbols keep their spaces."""
    words = _words(symbols)
    return ("" if all(len(word) == 1 for word in words) else " ").join(map(lettering.shown, words))


class Room(NamedTuple):
    """What a panel needs around the upper left corner of its heat map, in inches."""

    left: float
    above: float
    right: float
    below: float


def _arrange(figure: Figure, panels: Sequence[Axes], columns: int) -> None:
    """Set panels row by row, heat maps aligned at the upper left, and fit the page around them and a bar."""
    sizes = [axes.get_position().size for axes in panels]  # the figure is one inch square until the end
    rooms = [_room(axes) for axes in panels]
    by_column = [rooms[column::columns] for column in range(columns)]
    by_row = [rooms[start : start + columns] for start in range(0, len(rooms), columns)]
    lefts = _starts([(max(r.left for r in rooms), max(r.right for r in rooms)) for rooms in by_column])
    tops = _starts([(max(r.above for r in rooms), max(r.below for r in rooms)) for rooms in by_row])
    corners = [(lefts[number % columns], tops[number // columns]) for number in range(len(panels))]
    bar = max(x + width for (x, _), (width, _) in zip(corners, sizes, strict=True)) + 0.22
    right = max(x + room.right for (x, _), room in zip(corners, rooms, strict=True))
    wide = max(bar + BAR + 0.55, right) + EDGE
    high = max(y + room.below for (_, y), room in zip(corners, rooms, strict=True)) + EDGE
    boxes = [(x, y, *size) for (x, y), size in zip(corners, sizes, strict=True)]
    boxes.append((bar, tops[0], BAR, min(sizes[columns - 1][1], 2.4)))
    figure.set_size_inches(wide, high)
    axes_of_bar = _bar(figure, panels[0])
    for axes, (x, y, width, height) in zip([*panels, axes_of_bar], boxes, strict=True):
        axes.set_position((x / wide, 1 - (y + height) / high, width / wide, height / high))


def _room(axes: Axes) -> Room:
    needed = axes.get_tightbbox()
    assert needed is not None  # only an invisible axes has none
    (x0, y0), (x1, y1) = needed.get_points() / DPI
    height = float(axes.get_position().height)
    return Room(left=-x0, above=y1 - height, right=x1, below=height - y0)


def _starts(needs: Sequence[tuple[float, float]]) -> list[float]:
    """Where each heat map of a line of panels starts, from what each needs before and after its start."""
    ends = accumulate((before + after + GAP for before, after in needs), initial=EDGE)
    return [end + before for end, (before, _) in zip(ends, needs, strict=False)]


def _bar(figure: Figure, panel: Axes) -> Axes:
    axes = figure.add_axes((0, 0, 1, 1))
    bar = figure.colorbar(panel.collections[0], cax=axes, ticks=[0, 0.5, 1])
    bar.set_label("weight", color=INK, fontsize=9)
    bar.outline.set_edgecolor(GRID)
    axes.tick_params(length=0, labelsize=9, labelcolor=INK)
    return axes
