"""Text fields of predictions.tsv: symbols, names and tags escaped so that a table can be read back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from attnx.files.printable import printable

# Written for a space within a symbol; and what separates references.
SPACE, BAR = "␣", "|"
SIGNS: Final = str.maketrans({"\\": "\\\\", SPACE: f"\\{SPACE}", " ": SPACE})
ESCAPED: Final = re.compile(rf"\\(?:x([0-9a-f]{{2}})|u([0-9a-f]{{4}})|([tnr])|([\\|{SPACE}]))")
SPACE_OR_ESCAPED: Final = re.compile(f"{ESCAPED.pattern}|{SPACE}")
CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r"}


def write_symbols(symbols: Iterable[str]) -> str:
    r"""Write symbols as a table field, separated by spaces; a space within a symbol is written ``␣``, as in pictures.

    A ``␣`` or backslash within a symbol, and the symbol ``|``, which separates references, get a backslash in front.
    Unprintable characters are written ``\x1b``, ``\u202e``, ``\t``.

    >>> print(write_symbols(["3", " ", "May", "|", "1 ␣", "\x1b[1m"]))
    3 ␣ May \| 1␣\␣ \x1b[1m
    """
    return " ".join(r"\|" if symbol == BAR else printable(symbol.translate(SIGNS)) for symbol in symbols)


def read_symbols(field: str) -> tuple[str, ...]:
    """Read symbols that :func:`write_symbols` wrote."""
    return tuple(SPACE_OR_ESCAPED.sub(_unescape, word) for word in field.split(" ") if word)


def write_field(text: str) -> str:
    r"""Write a name or a tag as a table field, with its spaces unchanged.

    >>> print(write_field("a b\\c\x1b"))
    a b\\c\x1b
    """
    return printable(text.replace("\\", "\\\\"))


def read_field(field: str) -> str:
    """Read a text that :func:`write_field` wrote."""
    return ESCAPED.sub(_unescape, field)


def _unescape(match: re.Match[str]) -> str:
    if match[0] == SPACE:
        return " "
    code, control = match[1] or match[2], match[3]
    return chr(int(code, 16)) if code else CONTROLS[control] if control else match[4]
