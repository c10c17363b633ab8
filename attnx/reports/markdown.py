"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attnx.files.printable import printable


def titled_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A table below its title; "" without rows.

    >>> print(titled_table("Results", ["metric", "value"], [["bleu|13a", "31.5"]]))
    ## Results
    <BLANKLINE>
    | metric | value |
    |---|---|
    | bleu\|13a | 31.5 |
    """
    body = list(rows)
    return f"## {title}\n\n{table(head, body)}" if body else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table without a title."""
    return "\n".join([_line(head), "|" + "---|" * len(head), *map(_line, rows)])


def cell_text(text: str) -> str:
    """A text that cannot end its cell or line."""
    return printable(" ".join(text.split())).replace("|", "\\|")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(cell_text, cells))} |"
