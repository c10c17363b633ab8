"""Word lists: a tab-separated file becomes pairs of a source and all its references."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from attnx.data.readers.lines import read_lines, refuse_header
from attnx.errors import UserError
from attnx.files.printable import quoted

Symbols: TypeAlias = tuple[str, ...]


class Pair(NamedTuple):
    """One source and the distinct references that are right for it, in the order of the file.

    Attributes:
        source: what the model reads.
        references: what it may write.
        tag: the language (or whatever else the query is to know), "" where there is only one.
        texts: the references as they were written, for metrics that read text; empty where symbols are all there is.
        features: (s, f) float32, a source that is a matrix; ``source`` then names its steps.
        target: (t, g) float32, a reference that is a matrix, and the only one; ``references`` then names its steps.
        name: what a source that is a matrix is called: its file, as the table has it.
    """

    source: Symbols
    references: tuple[Symbols, ...]
    tag: str = ""
    texts: tuple[str, ...] = ()
    features: npt.NDArray[np.float32] | None = None
    target: npt.NDArray[np.float32] | None = None
    name: str = ""


def digest(pair: Pair) -> bytes:
    """SHA-256 of all that an example holds."""
    held = hashlib.sha256(repr((pair.source, pair.references, pair.tag, pair.texts, pair.name)).encode())
    for matrix in (pair.features, pair.target):
        held.update(b"" if matrix is None else repr(matrix.shape).encode() + matrix.tobytes())
    return held.digest()


def merge(entries: Iterable[tuple[Symbols, Symbols]]) -> list[Pair]:
    """Gather (source, reference) entries, one pair per source; first-seen order, equal references once."""
    found: dict[Symbols, dict[Symbols, None]] = {}
    for source, reference in entries:
        found.setdefault(source, {})[reference] = None
    return [Pair(source, tuple(references)) for source, references in found.items()]


def read_pairs(path: str | Path, compose: bool = False) -> list[Pair]:
    """Read a UTF-8 TSV file, plain or ``.gz``: a word, then one pronunciation per column.

    The word is split into its characters (code points), a pronunciation at its spaces. Lines with the same word become
    one pair. Blank lines, a byte order mark and CRLF endings are tolerated.

    Args:
        path: the file.
        compose: compose the words' characters first (Unicode NFC), so that a word is the same however its accents are
            written; without it code points are as they are.

    Raises:
        UserError: ``file:line: what is wrong`` for a bad line, ``file: what is wrong`` for a bad file.
    """
    path = Path(path)
    lines = ((number, line) for number, line in read_lines(path, "TSV") if line.strip() or "\t" in line)
    pairs = merge(entry for number, line in lines for entry in _entries(line, path, number, compose))
    if not pairs:
        raise UserError(f"{path}: holds no pairs; expected lines of a word, a tab and a pronunciation")
    return pairs


def _entries(line: str, path: Path, number: int, compose: bool) -> Iterator[tuple[Symbols, Symbols]]:
    where = f"{path}:{number}"
    word, *columns = (column.strip() for column in line.split("\t"))
    if not columns:
        raise UserError(f"{where}: no tab in {quoted(line)}; expected a word, a tab and a pronunciation")
    if not word:
        raise UserError(f"{where}: the word (the first column) is empty in {quoted(line)}")
    if number == 1:
        refuse_header([word, *columns], where)
    letters = tuple(unicodedata.normalize("NFC", word) if compose else word)
    for place, column in enumerate(columns, 2):
        if not column:
            raise UserError(f"{where}: the pronunciation in column {place} of {quoted(word)} is empty")
        yield letters, tuple(column.split())
