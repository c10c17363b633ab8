"""Examples: pairs of a source and its references, and word lists, one or one a language, read as pairs."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from itertools import chain, zip_longest
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
from attnx.errors import UserError, suggest
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
    #: the source as every run on the same data knows it, whatever its task's options are; empty if ``source`` is that
    identity: Symbols = ()

    @property
    def source_text(self) -> str:
        """The source's symbols joined: a word, where symbols are its characters."""
        return "".join(self.source)

    def identified_by(self, source: Symbols) -> Pair:
        """Return the pair with the source by which runs with other options know it."""
        return self._replace(identity=source if source != self.source else ())


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
    path: str | Path,
    compose: bool = False,
    columns: Sequence[str] = (),
    notes: list[str] | None = None,
    known_phones: Collection[str] = (),
) -> list[Pair]:
    """Read a UTF-8 TSV file, plain or ``.gz``: a word, then one pronunciation per column.

    A word is split into characters (code points), a pronunciation at spaces. Lines with the same word become one pair.
    Blank lines, a byte order mark and CRLF line ends are allowed. A first line that names columns is not read.

    Args:
        path: the file.
        compose: normalize words to Unicode NFC, so that differently encoded accents are equal.
        columns: of the word and the pronunciations, by number or name; all if there are none.
        notes: gets a line on what is not read.
        known_phones: phones of the training data; a first line of such names no columns.

    Raises:
        UserError: ``file:line: problem`` for a bad line, ``file: problem`` for a bad file, or a column of numbers,
            addresses or few values that nobody named.
    """
    path = Path(path)
    rows = [row for row in read_text_rows(path, columns) if row is not None]
    entries = [_read_entries(row, compose) for row in rows]
    if not columns:
        check_columns(rows[1:CHECKED_LINES], ("word", "pronunciation"), path)
    if entries:
        counts = Counter(symbol for row in entries[1:] for _, phones in row for symbol in phones)
        first = (symbol for _, phones in entries[0] for symbol in phones)
        if is_header(rows[0].cells, first, counts, known_phones):
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


# The part of the data, after the language in a file's name.
PART_SUFFIX = re.compile(r"[_.](all|train|dev|devel|development|val|valid|validation|test|eval)$", re.IGNORECASE)
LANGUAGE_CODE = re.compile(r"[^\W_]+([-_][^\W_]+)*")


def has_languages(path: Path) -> bool:
    """Whether a path is a folder or a pattern such as ``folder/*_train.tsv``, not a single word list."""
    return "*" in path.name or path.is_dir()


def read_languages(
    path: Path,
    languages: Sequence[str] | None = None,
    compose: bool = False,
    columns: Sequence[str] = (),
    notes: list[str] | None = None,
    known_phones: Collection[str] = (),
) -> list[Pair]:
    """Read the word list of every language; a pair's tag is its language, the start of its file's name.

    The language of ``por_latn_bz_train.tsv`` is ``por_latn_bz``: the name without its ending and a suffix ``_train``,
    ``_dev``, ``_valid``, ``_test`` and the like. If a pattern starts with a star, the star matches the language:
    ``fre`` of ``fre_gold.tsv`` in ``*_gold.tsv``.

    A word of two languages is a pair in each. Pairs of the languages alternate. ``path`` is a folder of ``.tsv`` or
    ``.tsv.gz`` files, or a pattern of such files; ``languages`` are those to read, None for all; the others are as in
    :func:`attnx.data.examples.read_pairs`. No files, two of one language, none of a language in ``languages``, and
    malformed ones are UserErrors.
    """
    files = _files_by_language(path)
    for language in languages or ():
        if language not in files:
            raise UserError(f"{path}: has no file of the language {language!r}{suggest(language, files)}")
    selected = sorted(set(files if languages is None else languages))
    words = {tag: read_pairs(files[tag], compose, columns, notes, known_phones) for tag in selected}
    lists = [[pair._replace(tag=tag) for pair in words[tag]] for tag in selected]
    return [pair for pair in chain.from_iterable(zip_longest(*lists)) if pair is not None]


def _files_by_language(path: Path) -> dict[str, Path]:
    folder, pattern = (path.parent, path.name) if "*" in path.name else (path, "*")
    files: dict[str, Path] = {}
    for file in sorted(folder.iterdir() if folder.is_dir() else ()):
        if not fnmatchcase(file.name, pattern) or not re.fullmatch(r"[^.].*\.tsv(\.gz)?", file.name):
            continue
        name = file.name
        prefix, _, suffix = pattern.partition("*")
        if not prefix and "*" not in suffix:
            name = name.removesuffix(suffix)
        language = PART_SUFFIX.sub("", re.sub(r"\.tsv(\.gz)?$", "", name))
        if not LANGUAGE_CODE.fullmatch(language):
            raise UserError(f"{file}: its name does not start with a language, like por_latn_bz_train.tsv; rename it")
        if language in files:
            raise UserError(
                f"{folder}: {files[language].name} and {file.name} are both of the language {language!r}; "
                "remove one, or use a pattern of files such as *_train.tsv"
            )
        files[language] = file
    if not files:
        raise UserError(f"{path}: holds no word lists; expected a .tsv file for each language, such as ady_train.tsv")
    return files
