"""Examples: pairs of a source and its references, and word lists read as pairs."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from attnx.data.features import Matrix
from attnx.data.readers.lines import check_not_header, read_lines
from attnx.errors import UserError
from attnx.files.printable import quoted

Symbols: TypeAlias = tuple[str, ...]


class Pair(NamedTuple):
    """A source and its distinct references, in the order of the file.

    Attributes:
        tag: the language, or another tag; "" if there is only one.
        texts: the references as text, for metrics on text; empty if there are only symbols.
        features: (s, f), a source that is a matrix, in the data's units; ``source`` then names its steps.
        target: (t, g), the only reference, a matrix, in the data's units; ``references`` then names its steps.
        name: name of a source that is a matrix: its file, as written in the table.
    """

    source: Symbols
    references: tuple[Symbols, ...]
    tag: str = ""
    texts: tuple[str, ...] = ()
    features: Matrix | None = None
    target: Matrix | None = None
    name: str = ""

    @property
    def source_text(self) -> str:
        """The source's symbols joined: a word, where symbols are its characters."""
        return "".join(self.source)


def digest(pair: Pair) -> bytes:
    """Return the SHA-256 of an example's content; of matrices in single precision, as fingerprints in records are."""
    sha256 = hashlib.sha256(repr((pair.source, pair.references, pair.tag, pair.texts, pair.name)).encode())
    for matrix in (pair.features, pair.target):
        sha256.update(b"" if matrix is None else repr(matrix.shape).encode() + matrix.astype(np.float32).tobytes())
    return sha256.digest()


def merge_references(entries: Iterable[tuple[Symbols, Symbols]]) -> list[Pair]:
    """Make one pair per source of (source, reference) entries, in order of first occurrence, without duplicates."""
    references: dict[Symbols, dict[Symbols, None]] = {}
    for source, reference in entries:
        references.setdefault(source, {})[reference] = None
    return [Pair(source, tuple(distinct)) for source, distinct in references.items()]


def read_pairs(path: str | Path, compose: bool = False) -> list[Pair]:
    """Read a UTF-8 TSV file, plain or ``.gz``: a word, then one pronunciation per column.

    A word is split into characters (code points), a pronunciation at spaces. Lines with the same word become one pair.
    Blank lines, a byte order mark and CRLF line ends are allowed. ``compose`` normalizes words to Unicode NFC, so that
    differently encoded accents are equal. Bad lines are UserErrors, ``file:line: problem``, and so are bad files.
    """
    path = Path(path)
    lines = ((line_number, line) for line_number, line in read_lines(path, "TSV") if line.strip() or "\t" in line)
    pairs = merge_references(
        entry
        for index, (line_number, line) in enumerate(lines)
        for entry in _read_entries(line, f"{path}:{line_number}", compose, is_first=not index)
    )
    if not pairs:
        raise UserError(f"{path}: holds no pairs; expected lines of a word, a tab and a pronunciation")
    return pairs


def _read_entries(line: str, where: str, compose: bool, is_first: bool) -> Iterator[tuple[Symbols, Symbols]]:
    word, *columns = (column.strip() for column in line.split("\t"))
    if not columns:
        raise UserError(f"{where}: no tab in {quoted(line)}; expected a word, a tab and a pronunciation")
    if not word:
        raise UserError(f"{where}: the word (the first column) is empty in {quoted(line)}")
    if is_first:
        check_not_header([word, *columns], where)
    letters = tuple(unicodedata.normalize("NFC", word) if compose else word)
    for column_number, column in enumerate(columns, 2):
        if not column:
            raise UserError(f"{where}: the pronunciation in column {column_number} of {quoted(word)} is empty")
        yield letters, tuple(column.split())
