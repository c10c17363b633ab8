"""Text that is safe to print, in a spreadsheet and in a table, and what a stream can show."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, TextIO

from attnx.files.parse_number import is_number

if TYPE_CHECKING:
    from rich.console import Console

# Control characters (C0, DEL, C1), line and paragraph separators, what embeds, overrides or isolates a direction
# (Unicode TR9), and halves of surrogate pairs, which no stream can encode.
UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str, keep: str = "") -> str:
    r"""Text with each unsafe character written as Python does: ``\x1b``, ``\u202e``; a tab is ``\t``.

    The unsafe characters in ``keep`` stay: ``"\n"`` where lines are meant to end.

    >>> print(printable("a\x1b[31mb\u202e c\td"))
    a\x1b[31mb\u202e c\td
    """
    return UNSAFE.sub(lambda match: match[0] if match[0] in keep else ascii(match[0])[1:-1], text)


def quoted(text: str, most: int = 60) -> str:
    """A text in quotes, unsafe characters written out, cut if it has more than so many characters.

    >>> print(quoted("dab D"), quoted("abcdefgh", most=7))
    'dab D' 'abcd...'
    """
    return repr(text if len(text) <= most else f"{text[: most - 3]}...")


def printable_json(text: str) -> str:
    r"""JSON text of the same value without unsafe characters but line ends, which stand between its values alone.

    >>> print(printable_json('"\x9b1m"'))
    "\u009b1m"
    """
    return UNSAFE.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)


def print_line(text: object, file: TextIO | None = None, *, flush: bool = False) -> None:
    """Print a line as :func:`text_for` has it, by default to standard output: every command prints through here."""
    stream = sys.stdout if file is None else file
    print(text_for(stream, str(text)), file=stream, flush=flush)


def text_for(stream: TextIO, text: str) -> str:
    """Lines and columns for a stream: a terminal gets them safe to show, a file or a pipe as they are."""
    return printable(text, keep="\t\n") if stream.isatty() else text


def can_redraw(console: Console) -> bool:
    """Whether a bar or a table can be drawn over itself, which takes control codes.

    ``TERM=dumb`` and ``TTY_INTERACTIVE=0`` refuse them. ``FORCE_COLOR`` has a pipe colored, but it is no terminal.
    """
    return console.is_interactive and console.file.isatty()


def show_waiting(console: Console, message: str) -> AbstractContextManager[object]:
    """A context that shows why the user waits; nothing where it could not be removed again."""
    return console.status(message) if can_redraw(console) else nullcontext()


FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")
"""How a cell begins that a spreadsheet would compute, or that is such a cell with quotes before it."""


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> str:
    """The text of a table with a header; a cell that a row lacks is empty.

    A quote comes before a text that a spreadsheet would take for a formula; :func:`cell_value` removes it.

    >>> print(csv_text(["a", "b"], [{"b": "1,5"}, {"a": "-7", "b": "=7+9"}]), end="")
    a,b
    ,"1,5"
    -7,'=7+9
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writerow({column: _harmless(column) for column in columns})
    writer.writerows({column: _harmless(cell) for column, cell in row.items()} for row in rows)
    return text.getvalue()


def cell_value(cell: str) -> str:
    """A cell as it was given to :func:`csv_text`.

    >>> cell_value("'=7+9"), cell_value("'tis"), cell_value("-7")
    ('=7+9', "'tis", '-7')
    """
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


def _harmless(cell: str) -> str:
    return f"'{cell}" if FORMULA.match(cell) and not is_number(cell) else cell


def titled_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A table in Markdown below its title; "" without rows.

    >>> print(titled_table("Results", ["metric", "value"], [["bleu|13a", "31.5"]]))
    ## Results
    <BLANKLINE>
    | metric | value |
    |---|---|
    | bleu\|13a | 31.5 |
    """
    body = list(rows)
    return f"## {title}\n\n{markdown_table(head, body)}" if body else ""


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, without a title."""
    line, *lines = (f"| {' | '.join(map(cell_text, cells))} |" for cells in (head, *rows))
    return "\n".join([line, "|" + "---|" * len(head), *lines])


def cell_text(text: str) -> str:
    """A text that cannot end its cell or line."""
    return printable(" ".join(text.split())).replace("|", "\\|")
