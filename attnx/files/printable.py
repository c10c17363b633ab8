r"""Text that is safe to show: no character of it moves the cursor, colors, renames the window or turns the direction.

Data, and files of other people, may hold such characters; a terminal obeys those that it is sent. What is shown goes
through here; a file or a pipe gets what there is.
"""

from __future__ import annotations

import re
import sys
from typing import Final, TextIO

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
