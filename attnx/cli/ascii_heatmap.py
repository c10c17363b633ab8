"""Attention weights in a terminal: a row for each symbol that was written, a column for each that was read."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size

SHADES = " ░▒▓█"
SPACE = "␣"
WIDEST = 12  # cells of a label; a longer one is cut


def grid(weights: Any, rows: Sequence[str], columns: Sequence[str], width: int, own: int = 0) -> Iterator[str]:
    r"""Draw weights (t, m) in shades, each fifth of the way from 0 to 1 a darker one.

    Columns that do not fit beside each other stand in blocks, one below the other. Labels are as wide as a terminal
    shows them: a Chinese character takes two cells, an accent of its own none.

    Args:
        weights: between 0 and 1.
        rows: t labels.
        columns: m labels.
        width: of the terminal, in cells.
        own: how many of the columns, the last ones, are the decoder's own states; a bar stands before them.

    >>> print("\n".join(grid([[1.0, 0.0], [0.3, 0.7]], ["B", "字"], ["b", "ab"], width=20)))
       b ab
    B  █
    字 ░ ▓▓
    """
    named = [_label(label) for label in rows]
    read = [_label(label) for label in columns]
    left = max(map(cell_len, named), default=0)
    for block in _blocks([cell_len(label) for label in read], width - left):
        yield _line("", left, block, own, len(read), [read[column] for column in block])
        for row, label in enumerate(named):
            shaded = [_shade(weights[row][column]) * cell_len(read[column]) for column in block]
            yield _line(label, left, block, own, len(read), shaded)


def _line(label: str, left: int, block: range, own: int, total: int, cells: Sequence[str]) -> str:
    """A row: its label, then its cells, with a bar before the first of the decoder's own columns."""
    parts = [set_cell_size(label, left)]
    for column, cell in zip(block, cells, strict=True):
        parts.append("│" + cell if own and column == total - own else " " + cell)
    return "".join(parts).rstrip()


def _blocks(widths: Sequence[int], room: int) -> Iterator[range]:
    """Columns that fit beside each other, a space before each; at least one."""
    start, taken = 0, 0
    for column, wide in enumerate(widths):
        if column > start and taken + wide + 1 > room:
            yield range(start, column)
            start, taken = column, 0
        taken += wide + 1
    if widths:
        yield range(start, len(widths))


def _shade(weight: float) -> str:
    return SHADES[min(max(round(float(weight) * (len(SHADES) - 1)), 0), len(SHADES) - 1)]


def _label(symbol: str) -> str:
    """A symbol as it can be seen: spaces, and accents that stand alone."""
    shown = symbol.replace(" ", SPACE)
    shown = "".join(sign if sign.isprintable() else f"U+{ord(sign):04X}" for sign in shown)
    if shown and unicodedata.combining(shown[0]):
        shown = "\u25cc" + shown
    return shown if cell_len(shown) <= WIDEST else set_cell_size(shown, WIDEST - 1) + "…"
