"""A page of heat maps: the part of each alignment that it has room for, the texts around it, and the arrangement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnx.reports.figures.fonts import LEFT_TO_RIGHT, TextFonts, is_right_to_left, shorten, wrap
from attnx.runs.alignments import END, Alignment, Weights, without_end

DPI = 150
INK, PALE, GRID = "#222222", "#6b7280", "#dfe3e8"
GAP, MARGIN, BAR_WIDTH = 0.35, 0.15, 0.11  # inches: between panels, around the page, of the color bar
MIN_BAR_HEIGHT, MAX_BAR_HEIGHT = 0.6, 2.4  # inches: the bar's three numbers need room
WRONG = "#b3261e"
MAX_SYMBOL_COLUMNS = 24
MAX_TITLE_LINES, MAX_REFERENCE_LINES = 4, 2
GROUP_GAP = 0.6  # cells between the columns of the source and of the decoder states


class Panel(NamedTuple):
    """One heat map of a page: the weights (t, m) of an alignment or of one of its heads.

    ``rows`` is what a row is. ``title`` is None for the alignment's own, with its reference below the map if it is
    wrong; ``note`` is a line below the title.
    """

    alignment: Alignment
    weights: Weights
    rows: str = "output"
    title: str | None = None
    note: str = ""


class ShownPart(NamedTuple):
    """What is shown of an alignment: its first rows, and columns, the last of which are decoder states."""

    rows: int
    columns: NDArray[np.intp]
    decoder_states: int

    @classmethod
    def of(cls, alignment: Alignment, weights: Weights, most: int) -> ShownPart:
        """The first steps, and the source symbols that they read most, so that neither exceeds ``most``."""
        steps, states, source = len(weights), alignment.num_decoder_states, len(alignment.source_symbols)
        rows = min(steps, most)
        shown_source = min(source, max(most - min(states, rows), most // 2 if states else most))
        shown_states = min(states, most - shown_source)
        if shown_states < states:
            rows = min(rows, shown_states)
        read = np.nan_to_num(weights[:rows, :source]).sum(axis=0)
        sums = [read[start : start + shown_source].sum() for start in range(source - shown_source + 1)]
        columns = np.append(np.argmax(sums) + np.arange(shown_source), source + np.arange(shown_states))
        return cls(rows, columns.astype(np.intp), shown_states)

    @property
    def lefts(self) -> NDArray[np.float64]:
        """Left edge of each column, in cells."""
        return left_edges(len(self.columns), self.decoder_states)

    def note(self, steps: int, columns: int) -> str:
        """How much of an alignment is shown; "" if all is."""
        counts = ((self.rows, steps, "steps"), (len(self.columns), columns, "positions"))
        return ", ".join(f"{shown} of {all_} {name}" for shown, all_, name in counts if shown < all_)


def left_edges(columns: int, decoder_states: int) -> NDArray[np.float64]:
    """Left edge of each column, in cells; a gap separates the decoder states from the source."""
    source, positions = columns - decoder_states, np.arange(columns)
    return positions + GROUP_GAP * (positions >= source) * bool(source)


def column_groups(columns: int, decoder_states: int) -> dict[str, slice]:
    """The columns of the source, then of the decoder states; empty groups are left out."""
    source = columns - decoder_states
    groups = {"source": slice(0, source), "decoder states": slice(source, columns)}
    return {name: group for name, group in groups.items() if group.start < group.stop}


def label_heatmap(
    axes: Axes, panel: Panel, part: ShownPart, fonts: TextFonts, size: float, has_marks: bool = True
) -> None:
    """Write symbols along the top and down the side, of a size in points, the title, and below a wrong reference."""
    alignment = panel.alignment
    style: dict[str, Any] = {"parse_math": False, "fontfamily": fonts.families, "color": INK}

    def label(symbol: str) -> str:
        return shorten(fonts.display(symbol), MAX_SYMBOL_COLUMNS)

    def text(symbols: Sequence[str]) -> str:  # of rows of numbers their count
        return f"{len(symbols)} steps" if alignment.is_numeric else symbols_text(symbols, fonts)

    axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=4, labelsize=size)
    axes.set_xticks(part.lefts + 0.5, [label(alignment.source[column]) for column in part.columns], **style)
    axes.set_yticks(np.arange(part.rows) + 0.5, [*map(label, alignment.output[: part.rows])], **style)
    axes.set_ylabel(panel.rows, fontsize=size, color=PALE)
    column_width = 0.94 * axes.get_window_extent().width / axes.get_xlim()[1]
    symbols = axes.get_xticklabels()
    wide = {symbol.get_text() for symbol in symbols if symbol.get_window_extent().width > column_width}
    for symbol in symbols:  # all are rotated if one is wide; a wide end symbol is rotated alone
        if wide - {END} or symbol.get_text() in wide:
            symbol.set_rotation(90)
    columns = max(26, int(axes.get_window_extent().width / DPI * 72 / (0.62 * size)))
    is_marked = has_marks and alignment.is_right is False and panel.title is None
    source, title = fonts.display(alignment.name) or symbols_text(alignment.source_symbols, fonts), panel.title
    if title is None:  # source and output; the output alone if no source was read
        output = text(alignment.output)
        if is_right_to_left(source) or is_right_to_left(output):
            source, output = (f"{LEFT_TO_RIGHT}{side}{LEFT_TO_RIGHT}" for side in (source, output))
        title = f"{source} \u2192 {output}" if alignment.source_symbols else output
    lines = [wrap(title, columns, MAX_TITLE_LINES, " \u2717" if is_marked else "")]
    lines += filter(None, [panel.note, part.note(len(alignment.output), len(alignment.source))])
    axes.set_title("\n".join(lines), loc="left", fontsize=size + 1, pad=7, **style)
    below: dict[str, Any] = {"xytext": (0, -4), "textcoords": "offset points", "va": "top"}
    for name, group in column_groups(len(part.columns), part.decoder_states).items():  # titles of the columns
        corner = part.lefts[group.start], part.rows
        axes.annotate(name, corner, color=PALE, fontsize=size, annotation_clip=False, **below)
    if is_marked:
        reference = wrap(f"reference: {text(alignment.reference)}", columns, MAX_REFERENCE_LINES)
        axes.set_xlabel(reference, loc="left", fontsize=size, labelpad=6 + 1.4 * size, **(style | {"color": WRONG}))
        axes.xaxis.set_label_position("bottom")


def symbols_text(symbols: Iterable[str], fonts: TextFonts) -> str:
    """Symbols as text: letters are joined; longer symbols and numbers keep spaces; no symbols are ``∅``."""
    words = without_end(symbols)
    if not words:
        return "\u2205"
    if all(len(word) == 1 for word in words) and not all(word.isdecimal() for word in words):
        return fonts.display("".join(words))
    return " ".join(map(fonts.display, words))


class Margins(NamedTuple):
    """Inches that a panel needs around its heat map, measured from the upper left corner of the map."""

    left_side: float
    top: float
    right_side: float
    bottom: float


def arrange(figure: Figure, panels: Sequence[Axes], columns: int, legend: Sequence[Artist] = ()) -> None:
    """Place panels row by row, and fit the page to them, a color bar and a legend of labeled artists."""
    sizes = [axes.get_position().size for axes in panels]  # the figure is one inch square until the end
    margins = [_margins(axes) for axes in panels]
    by_column = [margins[column::columns] for column in range(columns)]
    by_row = [margins[start : start + columns] for start in range(0, len(margins), columns)]
    lefts = _starts([(max(m.left_side for m in line), max(m.right_side for m in line)) for line in by_column])
    tops = _starts([(max(m.top for m in line), max(m.bottom for m in line)) for line in by_row])
    corners = [(lefts[index % columns], tops[index // columns]) for index in range(len(panels))]
    bar_left = max(x + margin.right_side for (x, _), margin in zip(corners, margins, strict=True)) + 0.15
    bottom = max(y + margin.bottom for (_, y), margin in zip(corners, margins, strict=True))
    bar_height = float(np.clip(sizes[columns - 1][1], MIN_BAR_HEIGHT, MAX_BAR_HEIGHT))
    legend_width = legend_height = 0.0
    if legend:
        drawn = figure.legend(handles=[*legend], loc="lower left", frameon=False, fontsize=9, labelcolor=INK)
        box = drawn.get_window_extent()
        legend_width, legend_height = float(box.width) / DPI, float(box.height) / DPI
    page_width = max(bar_left + BAR_WIDTH + 0.55, MARGIN + legend_width) + MARGIN
    page_height = max(bottom, tops[0] + bar_height + MARGIN) + legend_height + MARGIN
    boxes = [(x, y, *size) for (x, y), size in zip(corners, sizes, strict=True)]
    boxes.append((bar_left, tops[0], BAR_WIDTH, bar_height))
    figure.set_size_inches(page_width, page_height)
    bar_axes, mesh = figure.add_axes((0, 0, 1, 1)), panels[0].collections[0]
    _, top = mesh.get_clim()
    bar = figure.colorbar(mesh, cax=bar_axes, ticks=[0, top / 2, top])
    bar.set_label("weight", color=INK, fontsize=9)
    bar.outline.set_edgecolor(GRID)
    bar_axes.tick_params(length=0, labelsize=9, labelcolor=INK)
    for axes, (x, y, width, height) in zip([*panels, bar_axes], boxes, strict=True):
        y = 1 - (y + height) / page_height
        axes.set_position((x / page_width, y, width / page_width, height / page_height))


def _margins(axes: Axes) -> Margins:
    box = axes.get_tightbbox()
    assert box is not None  # only invisible axes have none
    (x0, y0), (x1, y1) = box.get_points() / DPI
    height = float(axes.get_position().height)
    return Margins(left_side=-x0, top=y1 - height, right_side=x1, bottom=height - y0)


def _starts(margins: Sequence[tuple[float, float]]) -> list[float]:
    """Start of each heat map in a line of panels, from the space needed on both sides of its start."""
    ends = accumulate((low + high + GAP for low, high in margins), initial=MARGIN)
    return [end + low for end, (low, _) in zip(ends, margins, strict=False)]
