"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attnx.files.printable import printable


def titled_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A table below its title; "" without rows.

    >>> print(titled_table("Results", ["measure", "value"], [["bleu|13a", "31.5"]]))
    ## Results
    <BLANKLINE>
    | measure | value |
    |---|---|
    | bleu\|13a | 31.5 |
    """
    body = [_line([printable(" ".join(cell.split())).replace("|", "\\|") for cell in row]) for row in rows]
    return "\n".join([f"## {title}", "", _line(head), "|" + "---|" * len(head), *body]) if body else ""


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
