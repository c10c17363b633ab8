"""Reading texts with a label from TSV files, and splitting them into words and sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from attnx.data.examples import Pair, Symbols
from attnx.data.readers.lines import check_not_header, read_lines
from attnx.errors import UserError
from attnx.files.printable import quoted

LabelColumn = Literal["first", "last"]
FULL_STOP: Final = "."
# A number with its decimal marks, a word with its apostrophes, marks that end a sentence, or another mark.
_SYMBOL: Final = re.compile(r"\d+(?:[.,]\d+)+|\w+(?:['\u2019]\w+)*|[.!?]+|[^\w\s]")
_SENTENCE_END: Final = re.compile(r"[.!?]+")


def split_sentences(text: str, lower: bool = True) -> Symbols:
    """Split a text into words and marks; each sentence but the last ends with a full stop, behind its ``!`` or ``?``.

    A run of marks that end a sentence is one end. Whether the last sentence has an end makes no difference.

    >>> split_sentences("Won £3.50!! Call now...  It's free")
    ('won', '£', '3.50', '!', '.', 'call', 'now', '.', "it's", 'free', '.')
    """
    symbols: list[str] = []
    for symbol in _SYMBOL.findall(text.lower() if lower else text):
        if _SENTENCE_END.fullmatch(symbol):
            symbols += [mark for mark in "!?" if mark in symbol] + [FULL_STOP]
        else:
            symbols.append(symbol)
    return tuple(symbols if not symbols or symbols[-1] == FULL_STOP else [*symbols, FULL_STOP])


def read_labeled_texts(path: Path, label: LabelColumn = "last", lower: bool = True) -> list[Pair]:
    """Read a UTF-8 TSV file, plain or ``.gz``, of texts and their labels: a pair for each line, in order.

    Args:
        path: the file; blank lines in it are skipped.
        label: the column of the label.
        lower: whether texts are lower-cased; labels are not.

    Raises:
        UserError: ``file:line: problem`` for a bad line; ``file: problem`` for a bad file.
    """
    pairs = [pair for numbered in read_lines(path, "TSV") for pair in _read_line(*numbered, path, label, lower)]
    if not pairs:
        raise UserError(f"{path}: holds no texts; expected lines of {_columns(label)}")
    return pairs


def _read_line(line_number: int, line: str, path: Path, label: LabelColumn, lower: bool) -> Iterator[Pair]:
    if not line.strip():
        return
    where = f"{path}:{line_number}"
    fields = [field.strip() for field in line.split("\t")]
    if line_number == 1:
        check_not_header(fields, where)
    if len(fields) != 2:
        problem = f"{len(fields)} column{'s' * (len(fields) > 1)}; expected {_columns(label)}"
        raise UserError(f"{where}: {problem}; the line is {quoted(line)}")
    text, name = fields if label == "last" else reversed(fields)
    symbols = split_sentences(text, lower)
    if not symbols or not name:
        missing = "label" if symbols else "text"
        raise UserError(f"{where}: the {missing} is empty; expected {_columns(label)}; the line is {quoted(line)}")
    yield Pair(symbols, ((name,),))


def _columns(label: LabelColumn) -> str:
    return "a text, a tab and its label" if label == "last" else "a label, a tab and its text (task.label=first)"
