"""Writes symbols, title and reference around a heat map: legible at any length, in any script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from attnx.reports.figures.fonts import LEFT_TO_RIGHT, TextFonts, is_right_to_left, shorten, wrap
from attnx.reports.figures.grid_layout import DPI, INK, PALE
from attnx.runs.alignments import END, Alignment, without_end

WRONG = "#b3261e"
MAX_SYMBOL_COLUMNS = 24
MAX_TITLE_LINES, MAX_REFERENCE_LINES = 4, 2


class HeatmapLabels(NamedTuple):
    """The texts around one heat map: symbols of a size in points, at the left edges of columns (in cells).

    ``title`` is above the map; None for that of the alignment, with its reference below if it is wrong. ``note`` is a
    line between title and map.
    """

    alignment: Alignment
    fonts: TextFonts
    size: float
    lefts: NDArray[np.float64]
    title: str | None = None
    note: str = ""

    @property
    def style(self) -> dict[str, Any]:
        """Text properties."""
        return {"parse_math": False, "fontfamily": self.fonts.families, "color": INK}

    def write(self, axes: Axes) -> None:
        """Write symbols along the top and down the side, the title, and the reference of a wrong output below."""
        alignment, steps = self.alignment, len(self.alignment.weights)
        axes.xaxis.tick_top()
        axes.tick_params(length=0, pad=4, labelsize=self.size)
        axes.set_xticks(self.lefts + 0.5, [self._symbol(s) for s in alignment.source], **self.style)
        axes.set_yticks(np.arange(steps) + 0.5, [self._symbol(s) for s in alignment.output], **self.style)
        cell = axes.get_window_extent().width / axes.get_xlim()[1]
        _rotate_wide(axes, 0.94 * cell)
        self._thin(axes, cell)
        columns = max(26, int(axes.get_window_extent().width / DPI * 72 / (0.62 * self.size)))
        is_marked = alignment.is_right is False and self.title is None
        title = self._title() if self.title is None else self.title
        lines = [wrap(title, columns, MAX_TITLE_LINES, " \u2717" if is_marked else "")]
        lines += [self.note] if self.note else []
        axes.set_title("\n".join(lines), loc="left", fontsize=self.size + 1, pad=7, **self.style)
        if alignment.num_decoder_states:
            self._name_groups(axes)
        if is_marked:
            reference = wrap(f"reference: {self._text(alignment.reference)}", columns, MAX_REFERENCE_LINES)
            style = self.style | {"color": WRONG}
            pad = 6 + 1.4 * self.size * bool(alignment.num_decoder_states)
            axes.set_xlabel(reference, loc="left", fontsize=self.size, labelpad=pad, **style)
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

    @property
    def _column_groups(self) -> dict[str, slice]:
        return column_groups(len(self.alignment.source), self.alignment.num_decoder_states)

    def _name_groups(self, axes: Axes) -> None:
        below: dict[str, Any] = {"xytext": (0, -4), "textcoords": "offset points", "va": "top"}
        for name, group in self._column_groups.items():
            corner = self.lefts[group.start], len(self.alignment.weights)
            axes.annotate(name, corner, color=PALE, fontsize=self.size - 1, annotation_clip=False, **below)

    def _thin(self, axes: Axes, cell: float) -> None:
        """Leave out labels that would overlap, evenly in each group of columns and down the side."""
        widest = max(label.get_window_extent().width for label in axes.get_xticklabels())
        highest = max(label.get_window_extent().height for label in axes.get_yticklabels())
        across, down = (int(np.ceil(1.05 * size / cell)) for size in (widest, highest))
        source, output = self.alignment.source, self.alignment.output
        if across > 1:
            columns = [
                column for group in self._column_groups.values() for column in range(group.start, group.stop, across)
            ]
            rotation = max(label.get_rotation() for label in axes.get_xticklabels())
            texts = [self._symbol(source[column]) for column in columns]
            axes.set_xticks(self.lefts[columns] + 0.5, texts, rotation=rotation, **self.style)
        if down > 1:
            rows = np.arange(0, len(output), down)
            axes.set_yticks(rows + 0.5, [self._symbol(output[row]) for row in rows], **self.style)


def column_groups(columns: int, decoder_states: int) -> dict[str, slice]:
    """The columns of the source, then those of the decoder states; empty groups are left out."""
    source = columns - decoder_states
    groups = {"source": slice(0, source), "decoder states": slice(source, columns)}
    return {name: group for name, group in groups.items() if group.start < group.stop}


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
