"""Attention weights as a heat map on a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size

SHADES = " ░▒▓█"
SPACE = "␣"
MAX_LABEL_CELLS = 12


def heatmap(
    weights: Any, rows: Sequence[str], columns: Sequence[str], width: int, decoder_columns: int = 0
) -> Iterator[str]:
    r"""Lines of a heat map of weights (t, m) in five shades.

    Columns that do not fit the width, in cells, are wrapped into blocks. Labels are as wide as a terminal shows them: a
    Chinese character takes two cells, a combining accent none. A bar separates the last columns, of decoder states.

    >>> print("\n".join(heatmap([[1.0, 0.0], [0.3, 0.7]], ["B", "字"], ["b", "ab"], width=20)))
       b ab
    B  █
    字 ░ ▓▓
    """
    row_labels, column_labels = [_label(label) for label in rows], [_label(label) for label in columns]
    label_width = max(map(cell_len, row_labels), default=0)
    bar = len(column_labels) - decoder_columns if decoder_columns else None

    def line(label: str, cells: Iterable[str]) -> str:
        parts = ["│" + cell if column == bar else " " + cell for column, cell in zip(block, cells, strict=True)]
        return "".join([set_cell_size(label, label_width), *parts]).rstrip()

    for block in _blocks([cell_len(label) for label in column_labels], width - label_width):
        yield line("", (column_labels[column] for column in block))
        for row, label in zip(weights, row_labels, strict=False):
            shades = [round(min(max(float(row[column]), 0.0), 1.0) * (len(SHADES) - 1)) for column in block]
            cells = zip(shades, block, strict=True)
            yield line(label, (SHADES[shade] * cell_len(column_labels[column]) for shade, column in cells))


def _blocks(widths: Sequence[int], room: int) -> Iterator[range]:
    """Ranges of columns that fit the room, with a space before each; at least one column each."""
    start, used = 0, 0
    for column, width in enumerate(widths):
        if column > start and used + width + 1 > room:
            yield range(start, column)
            start, used = column, 0
        used += width + 1
    if widths:
        yield range(start, len(widths))


def _label(symbol: str) -> str:
    """A symbol with visible spaces, and combining accents on a circle."""
    shown = symbol.replace(" ", SPACE)
    shown = "".join(sign if sign.isprintable() else f"U+{ord(sign):04X}" for sign in shown)
    if shown and unicodedata.combining(shown[0]):
        shown = "\u25cc" + shown
    return shown if cell_len(shown) <= MAX_LABEL_CELLS else set_cell_size(shown, MAX_LABEL_CELLS - 1) + "…"
