"""A heat map of a page: the part of an alignment that it has room for, and the texts around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from attnx.reports.figures.fonts import LEFT_TO_RIGHT, TextFonts, is_right_to_left, shorten, wrap
from attnx.reports.figures.grid_layout import DPI, INK, PALE
from attnx.runs.alignments import END, Alignment, Weights, without_end

GROUP_GAP = 0.6  # cells between the source columns and those of the decoder states


class Panel(NamedTuple):
    """One heat map of a page: an alignment's weights (t, m), or those of one of its heads.

    ``forbidden_mask`` (t, m) is what the scope forbids, ``rows`` what a row is. ``title`` is None for the alignment's
    own, with its reference below the map if it is wrong; ``note`` is a line below the title.
    """

    alignment: Alignment
    weights: Weights
    forbidden_mask: NDArray[np.bool_]
    rows: str = "output"
    title: str | None = None
    note: str = ""


class ShownPart(NamedTuple):
    """What is shown of an alignment: its first rows, and columns, of which the last are decoder states."""

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
    """The columns of the source, then those of the decoder states; empty groups are left out."""
    source = columns - decoder_states
    groups = {"source": slice(0, source), "decoder states": slice(source, columns)}
    return {name: group for name, group in groups.items() if group.start < group.stop}


WRONG = "#b3261e"
MAX_SYMBOL_COLUMNS = 24
MAX_TITLE_LINES, MAX_REFERENCE_LINES = 4, 2


class HeatmapLabels(NamedTuple):
    """The texts around one heat map, with symbols of a size in points; ``has_marks`` says whether a wrong output is."""

    panel: Panel
    part: ShownPart
    fonts: TextFonts
    size: float
    has_marks: bool = True

    @property
    def alignment(self) -> Alignment:
        """The alignment whose weights are drawn."""
        return self.panel.alignment

    @property
    def style(self) -> dict[str, Any]:
        """Text properties."""
        return {"parse_math": False, "fontfamily": self.fonts.families, "color": INK}

    def write(self, axes: Axes) -> None:
        """Write symbols along the top and down the side, the title, and the reference of a wrong output below."""
        alignment, part = self.alignment, self.part
        axes.xaxis.tick_top()
        axes.tick_params(length=0, pad=4, labelsize=self.size)
        source = [self._symbol(alignment.source[column]) for column in part.columns]
        axes.set_xticks(part.lefts + 0.5, source, **self.style)
        output = [self._symbol(symbol) for symbol in alignment.output[: part.rows]]
        axes.set_yticks(np.arange(part.rows) + 0.5, output, **self.style)
        axes.set_ylabel(self.panel.rows, fontsize=self.size, color=PALE)
        _rotate_wide(axes, 0.94 * axes.get_window_extent().width / axes.get_xlim()[1])
        columns = max(26, int(axes.get_window_extent().width / DPI * 72 / (0.62 * self.size)))
        is_marked = self.has_marks and alignment.is_right is False and self.panel.title is None
        title = self._title() if self.panel.title is None else self.panel.title
        lines = [wrap(title, columns, MAX_TITLE_LINES, " \u2717" if is_marked else "")]
        lines += filter(None, [self.panel.note, part.note(len(alignment.output), len(alignment.source))])
        axes.set_title("\n".join(lines), loc="left", fontsize=self.size + 1, pad=7, **self.style)
        self._name_groups(axes)
        if is_marked:
            reference = wrap(f"reference: {self._text(alignment.reference)}", columns, MAX_REFERENCE_LINES)
            style = self.style | {"color": WRONG}
            axes.set_xlabel(reference, loc="left", fontsize=self.size, labelpad=6 + 1.4 * self.size, **style)
            axes.xaxis.set_label_position("bottom")

    def _symbol(self, symbol: str) -> str:
        return shorten(self.fonts.display(symbol), MAX_SYMBOL_COLUMNS)

    def _title(self) -> str:
        """Source and output; the output alone if no source was read."""
        alignment = self.alignment
        source = self.fonts.display(alignment.name) or symbols_text(alignment.source_symbols, self.fonts)
        output = self._text(alignment.output)
        if is_right_to_left(source) or is_right_to_left(output):
            source, output = (f"{LEFT_TO_RIGHT}{text}{LEFT_TO_RIGHT}" for text in (source, output))
        return f"{source} \u2192 {output}" if alignment.source_symbols else output

    def _text(self, symbols: Sequence[str]) -> str:
        """Symbols as text; of rows of numbers their count."""
        return f"{len(symbols)} steps" if self.alignment.is_numeric else symbols_text(symbols, self.fonts)

    def _name_groups(self, axes: Axes) -> None:
        """The axis titles of the columns, below them."""
        below: dict[str, Any] = {"xytext": (0, -4), "textcoords": "offset points", "va": "top"}
        for name, group in column_groups(len(self.part.columns), self.part.decoder_states).items():
            corner = self.part.lefts[group.start], self.part.rows
            axes.annotate(name, corner, color=PALE, fontsize=self.size, annotation_clip=False, **below)


def symbols_text(symbols: Iterable[str], fonts: TextFonts) -> str:
    """Symbols as text: letters are joined; longer symbols and numbers keep spaces; no symbols are ``∅``."""
    words = without_end(symbols)
    if not words:
        return "\u2205"
    if all(len(word) == 1 for word in words) and not all(word.isdecimal() for word in words):
        return fonts.display("".join(words))
    return " ".join(map(fonts.display, words))


def _rotate_wide(axes: Axes, pixels: float) -> None:
    """Rotate all labels if one is wider than so many pixels; a wide end symbol is rotated alone."""
    labels = axes.get_xticklabels()
    wide = {label.get_text() for label in labels if label.get_window_extent().width > pixels}
    for label in labels:
        if wide - {END} or label.get_text() in wide:
            label.set_rotation(90)
