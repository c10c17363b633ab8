"""Reading texts with a label, or pairs of texts, from TSV files, and splitting them into words and sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final, Literal, NamedTuple

from attnx.data.examples import Pair, Symbols
from attnx.data.graphemes import word_characters
from attnx.data.readers.columns import TableRow, header_note, is_header, read_text_rows
from attnx.data.readers.lines import separator_hint
from attnx.errors import UserError, suggest
from attnx.files.parse_number import count_phrase
from attnx.files.printable import quoted

FULL_STOP: Final = "."
# Between the two texts of a pair. No text has this symbol: in texts its three parts are symbols.
SEPARATOR: Final = "<sep>"
_SENTENCE_END: Final = re.compile(r"[.!?]+")
_LINES: Final = {
    (1, "last"): "a text, a tab and its label",
    (1, "first"): "a label, a tab and its text (task.label=first)",
    (2, "last"): "two texts and their label, with tabs between them (task.texts=2)",
    (2, "first"): "a label and two texts, with tabs between them (task.texts=2 task.label=first)",
}


class Columns(NamedTuple):
    """The columns of a file: one text or two, and their label before or after them."""

    texts: Literal[1, 2] = 1
    label: Literal["first", "last"] = "last"

    @property
    def description(self) -> str:
        """What a line has."""
        return _LINES[self.texts, self.label]


ONE_TEXT: Final = Columns()


def split_sentences(text: str, lower: bool = True) -> Symbols:
    """Split a text into words and marks; each sentence ends with a full stop, behind its ``!`` or ``?``.

    A run of marks that end a sentence is one end. A last sentence without an end gets a full stop, too.

    >>> split_sentences("Won £3.50!! Call now...  It's free")
    ('won', '£', '3.50', '!', '.', 'call', 'now', '.', "it's", 'free', '.')
    """
    symbols: list[str] = []
    for symbol in _symbol_pattern().findall(text.lower() if lower else text):
        if _SENTENCE_END.fullmatch(symbol):
            symbols += [mark for mark in "!?" if mark in symbol] + [FULL_STOP]
        else:
            symbols.append(symbol)
    return tuple(symbols if not symbols or symbols[-1] == FULL_STOP else [*symbols, FULL_STOP])


@cache
def _symbol_pattern() -> re.Pattern[str]:
    """Return the pattern of a number with its decimal marks, a word, marks that end a sentence, or another mark.

    A word has apostrophes and combining marks, but begins with neither: an emoji's variation selector is not part of
    the word after it.
    """
    word = rf"\w[{word_characters()}]*"
    return re.compile(rf"\d+(?:[.,]\d+)+|{word}(?:['\u2019]{word})*|[.!?]+|[^\w\s]")


def join_texts(first: Symbols, *second: Symbols) -> Symbols:
    """One sequence of a text, or of two with a separator between them.

    >>> join_texts(("a", "."), ("b", "."))
    ('a', '.', '<sep>', 'b', '.')
    """
    return (*first, *chain.from_iterable((SEPARATOR, *text) for text in second))


def read_labeled_texts(
    path: Path,
    columns: Columns = ONE_TEXT,
    lower: bool = True,
    labels: Sequence[str] = (),
    notes: list[str] | None = None,
) -> list[Pair]:
    """Read a UTF-8 TSV file, plain or ``.gz``, of texts and their labels: a pair for each line, in order.

    Blank lines are skipped. The source of two texts is one sequence (:func:`join_texts`). With ``lower`` texts are
    lower-cased, and labels are not. A line may have one of ``labels``, any if there are none. ``notes`` gets a line on
    a first line that names columns.

    Raises:
        UserError: ``file:line: problem`` for a bad line; ``file: problem`` for a bad file.
    """
    pairs: list[Pair] = []
    rows = [row for row in read_text_rows(path) if row is not None and any(row.cells)]
    place = 0 if columns.label == "first" else -1
    counts = Counter(row.cells[place] for row in rows[1:])
    if rows and is_header(rows[0].cells, [rows[0].cells[place]], counts):
        (notes if notes is not None else []).append(header_note(path, rows.pop(0).cells))
    for row in rows:
        pair = _read_fields(row, columns, lower)
        if labels and (label := pair.references[0][0]) not in labels:
            raise UserError(f"{row.where}: the training split lacks the label {label!r}{suggest(label, labels)}")
        pairs.append(pair)
    if not pairs:
        raise UserError(f"{path}: holds no texts; expected lines of {columns.description}")
    return pairs


def _read_fields(row: TableRow, columns: Columns, lower: bool) -> Pair:
    fields, where, line = list(row.cells), row.where, row.line
    expected = f"expected {columns.description}"
    if len(fields) != columns.texts + 1:
        hint = "; pairs of texts need task.texts=2" if len(fields) == 3 else ""
        hint = hint or (separator_hint(line) if len(fields) == 1 else "")
        raise UserError(f"{where}: {count_phrase(len(fields), 'column')}; {expected}{hint}; the line is {quoted(line)}")
    label = fields.pop(0 if columns.label == "first" else -1)
    texts = [split_sentences(field, lower) for field in fields]
    if not all(texts) or not label:
        missing = "label" if all(texts) else "text" if len(texts) == 1 else f"{'second' if texts[0] else 'first'} text"
        raise UserError(f"{where}: the {missing} is empty; {expected}; the line is {quoted(line)}")
    return Pair(join_texts(*texts), ((label,),))
