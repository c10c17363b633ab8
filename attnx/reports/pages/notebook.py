"""What a notebook shows of a run: fragments of HTML.

They are escaped, load nothing, and set no color of text or page, so they fit a light and a dark notebook.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from contextlib import suppress
from urllib.parse import quote

from attnx.errors import UserError
from attnx.files.printable import printable
from attnx.reports.run.tables import option_rows, result_rows
from attnx.runs.alignments import Weights, read_best_alignments
from attnx.runs.layout import PAGE
from attnx.runs.run import Run

ALIGNED, PALE = "text-align:left", "opacity:.7"
# A blue that is seen on white and on black; its opacity is the weight.
WEIGHT_COLOR = "60,130,220"
MAX_SYMBOLS = 32  # a side of a heat map has at most


def escaped(text: object) -> str:
    """A text that ends no element and has no control characters."""
    return html.escape(printable(str(text)))


def note(text: str) -> str:
    """A line in pale letters."""
    return f'<div style="{PALE}">{escaped(text)}</div>'


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts; "" without rows."""
    body = "".join(_row("td", row) for row in rows)
    return f"<table><thead>{_row('th', head)}</thead><tbody>{body}</tbody></table>" if body else ""


def _row(element: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f'<{element} style="{ALIGNED}">{escaped(cell)}</{element}>' for cell in cells) + "</tr>"


def has_room(weights: Weights) -> bool:
    """Whether a heat map of weights (t, m) is small enough for a notebook."""
    return weights.ndim == 2 and max(weights.shape) <= MAX_SYMBOLS


def heat_map(weights: Weights, source: Sequence[str], output: Sequence[str]) -> str:
    """Attention weights (t, m) as a table: the source along the top, the output down the side."""
    head = "".join(f'<th style="text-align:center; min-width:1.2em">{escaped(symbol)}</th>' for symbol in source)
    rows = []
    for symbol, row in zip(output, weights.tolist(), strict=True):
        cells = (
            f'<td style="background:rgba({WEIGHT_COLOR},{min(max(weight, 0.0), 1.0):.2f})" title="{weight:.3f}"></td>'
            for weight in row
        )
        rows.append(f'<tr><th style="{ALIGNED}">{escaped(symbol)}</th>{"".join(cells)}</tr>')
    return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def run_html(run: Run, remark: str = "") -> str:
    """A run as a fragment of HTML; ``remark`` is a line below its name.

    It shows the longest saved alignment that a notebook has room for.

    Raises:
        UserError: a file of the run cannot be read.
    """
    targets = {run.path: str(run.path), **({run.path / PAGE: "page"} if (run.path / PAGE).is_file() else {})}
    # Links are relative to where the notebook runs if the run's path is.
    links = [f'<a href="{escaped(quote(path.as_posix()))}">{escaped(text)}</a>' for path, text in targets.items()]
    heading = f"<div><b>{escaped(run.name)}</b>, {escaped(run.status)}: {', '.join(links)}</div>"
    options = html_table(("option", "value", ""), option_rows(run))
    blocks = [options, html_table(("metric", "value", "95 % interval", ""), result_rows(run))]
    with suppress(UserError):  # what cannot be read hides no result
        fitting = [alignment for alignment in read_best_alignments(run.path) if has_room(alignment.weights)]
        longest = max(fitting, key=lambda alignment: alignment.weights.size, default=None)
        blocks += [heat_map(longest.weights, longest.source, longest.output)] if longest else []
    cells = "".join(f"<div>{block}</div>" for block in blocks if block)  # side by side as far as there is room
    row = f'<div style="display:flex;flex-wrap:wrap;gap:0 2em;align-items:flex-start">{cells}</div>'
    return f"<div>{heading}{note(remark) if remark else ''}{row}</div>"
