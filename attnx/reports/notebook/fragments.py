"""Fragments of HTML for the output of a notebook's cell.

They are escaped, load nothing, and set no color of text or page, so they fit a light and a dark notebook.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from attnx.files.printable import printable
from attnx.runs.alignments import Weights

ALIGNED, PALE = "text-align:left", "opacity:.7"
# A blue that is seen on white and on black; its opacity is the weight.
WEIGHT_COLOR = "60,130,220"
MAX_SYMBOLS = 32  # a side of a heat map has at most


def escaped(text: object) -> str:
    """A text that ends no element and has no control characters."""
    return html.escape(printable(str(text)))


def link(path: Path, text: str) -> str:
    """A link to a file or folder, relative to where the notebook runs if the path is."""
    return f'<a href="{escaped(quote(path.as_posix()))}">{escaped(text)}</a>'


def note(text: str) -> str:
    """A line in pale letters."""
    return f'<div style="{PALE}">{escaped(text)}</div>'


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts; "" without rows."""
    body = "".join(_row("td", row) for row in rows)
    return f"<table><thead>{_row('th', head)}</thead><tbody>{body}</tbody></table>" if body else ""


def _row(element: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f'<{element} style="{ALIGNED}">{escaped(cell)}</{element}>' for cell in cells) + "</tr>"


def side_by_side(blocks: Iterable[str]) -> str:
    """Blocks beside each other, as far as there is room; empty ones are left out."""
    cells = "".join(f"<div>{block}</div>" for block in blocks if block)
    return f'<div style="display:flex;flex-wrap:wrap;gap:0 2em;align-items:flex-start">{cells}</div>'


def has_room(weights: Weights) -> bool:
    """Whether a heat map of weights (t, m) is small enough for a notebook."""
    return weights.ndim == 2 and max(weights.shape) <= MAX_SYMBOLS


def heat_map(weights: Weights, source: Sequence[str], output: Sequence[str]) -> str:
    """Attention weights (t, m) as a table: the source along the top, the output down the side."""
    head = "".join(f'<th style="text-align:center; min-width:1.2em">{escaped(symbol)}</th>' for symbol in source)
    rows = [
        f'<tr><th style="{ALIGNED}">{escaped(symbol)}</th>{"".join(map(_weight_cell, row))}</tr>'
        for symbol, row in zip(output, weights.tolist(), strict=True)
    ]
    return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _weight_cell(weight: float) -> str:
    opacity = min(max(weight, 0.0), 1.0)
    return f'<td style="background:rgba({WEIGHT_COLOR},{opacity:.2f})" title="{weight:.3f}"></td>'
