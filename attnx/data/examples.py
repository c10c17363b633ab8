"""Examples: pairs of a source and its references, and word lists read as pairs."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from attnx.data.features import Matrix
from attnx.data.readers.columns import (
    CHECKED_LINES,
    TableRow,
    check_columns,
    header_note,
    is_header,
    read_text_rows,
)
from attnx.data.readers.lines import separator_hint
from attnx.errors import UserError
from attnx.files.printable import quoted

Symbols: TypeAlias = tuple[str, ...]


class Pair(NamedTuple):
    """A source and its distinct references, in the order of the file."""

    source: Symbols
    references: tuple[Symbols, ...]
    tag: str = ""  #: the language, or another tag; "" if there is only one
    texts: tuple[str, ...] = ()  #: the references as text, for metrics on text; empty if there are only symbols
    #: (s, f), a source that is a matrix, in the data's units; ``source`` then names its steps
    features: Matrix | None = None
    #: (t, g), the only reference, a matrix, in the data's units; ``references`` then names its steps
    target: Matrix | None = None
    name: str = ""  #: name of a source that is a matrix: its file, as written in the table
    #: (s,) where the only reference labels the steps of the source, whether each label counts; else empty
    loss_mask: tuple[bool, ...] = ()
    #: (s,) how many steps before each label its answer stands, 0 where that has no meaning; else empty
    distances: tuple[int, ...] = ()

    @property
    def source_text(self) -> str:
        """The source's symbols joined: a word, where symbols are its characters."""
        return "".join(self.source)


def digest(pair: Pair) -> bytes:
    """Return the SHA-256 of an example's content; of matrices in single precision, as fingerprints in records are."""
    sha256 = hashlib.sha256(repr((pair.source, pair.references, pair.tag, pair.texts, pair.name)).encode())
    sha256.update(repr(pair.loss_mask).encode() if pair.loss_mask else b"")
    for matrix in (pair.features, pair.target):
        sha256.update(b"" if matrix is None else repr(matrix.shape).encode() + matrix.astype(np.float32).tobytes())
    return sha256.digest()


def merge_references(entries: Iterable[tuple[Symbols, Symbols]]) -> list[Pair]:
    """Make one pair per source of (source, reference) entries, in order of first occurrence, without duplicates."""
    references: dict[Symbols, dict[Symbols, None]] = {}
    for source, reference in entries:
        references.setdefault(source, {})[reference] = None
    return [Pair(source, tuple(distinct)) for source, distinct in references.items()]


def read_pairs(
    path: str | Path, compose: bool = False, columns: Sequence[str] = (), notes: list[str] | None = None
) -> list[Pair]:
    """Read a UTF-8 TSV file, plain or ``.gz``: a word, then one pronunciation per column.

    A word is split into characters (code points), a pronunciation at spaces. Lines with the same word become one pair.
    Blank lines, a byte order mark and CRLF line ends are allowed. A first line that names columns is not read.

    Args:
        path: the file.
        compose: normalize words to Unicode NFC, so that differently encoded accents are equal.
        columns: of the word and the pronunciations, by number or name; all if there are none.
        notes: gets a line on what is not read.
    """
    path = Path(path)
    rows = [row for row in read_text_rows(path, columns) if row is not None]
    entries = [_read_entries(row, compose) for row in rows]
    if not columns:
        check_columns(rows[1:CHECKED_LINES], ("word", "pronunciation"), path)
    if entries:
        counts = Counter(symbol for row in entries[1:] for _, phones in row for symbol in phones)
        first = (symbol for _, phones in entries[0] for symbol in phones)
        if is_header(rows[0].cells, first, counts):
            (notes if notes is not None else []).append(header_note(path, rows[0].cells))
            entries = entries[1:]
    pairs = merge_references(entry for row in entries for entry in row)
    if not pairs:
        raise UserError(f"{path}: holds no pairs; expected lines of a word, a tab and a pronunciation")
    return pairs


def _read_entries(row: TableRow, compose: bool) -> list[tuple[Symbols, Symbols]]:
    word, *columns = row.cells
    if not columns:
        hint = separator_hint(row.line)
        raise UserError(f"{row.where}: no tab in {quoted(row.line)}; expected a word, a tab and a pronunciation{hint}")
    if not word:
        raise UserError(f"{row.where}: the word (the first column) is empty in {quoted(row.line)}")
    letters = tuple(unicodedata.normalize("NFC", word) if compose else word)
    for column_number, column in enumerate(columns, 2):
        if not column:
            raise UserError(f"{row.where}: the pronunciation in column {column_number} of {quoted(word)} is empty")
    return [(letters, tuple(column.split())) for column in columns]
