"""Reading the lines of a UTF-8 text file, plain or ``.gz``, with line numbers for error messages."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, Literal

from attnx.data.paths import missing_file_message
from attnx.errors import UserError
from attnx.files.bounded_files import refuse_pipe
from attnx.files.printable import quoted

MAX_LINE_BYTES: Final = 2**20
_EXPECTED_TEXT: Final = "expected a text file of lines"
COLUMN_NAMES: Final = re.compile(
    "(?:word|grapheme|letter|spelling|orthography|pronunciation|phone|phoneme|transcription|ipa|arpabet|"
    "source|target|src|tgt|trg|input|output|sentence|translation|reference|premise|hypothesis|question|answer|"
    "text|label|goldlabel|tag|language|lang|locale|speaker|id|name|file|filename|path|feature|sequence|lemma|form|inflection|msd)s?"
)


def read_lines(path: Path, kind: str = "text") -> Iterator[tuple[int, str]]:
    r"""Yield every line, blank ones too, with its number, without byte order mark and line end.

    A line ends at a line feed (with or without a carriage return) and not at other Unicode line separators, so that
    parallel files stay aligned. ``kind`` is the expected kind of file, for the message about a folder. A line that is
    not UTF-8 is a UserError, ``file:line: problem``, and so is a bad file.
    """
    for line_number, raw in raw_lines(path, kind):
        # Decoded line by line: a text stream decodes in blocks and cannot tell the line of a bad byte.
        yield line_number, decode_line(raw, f"{path}:{line_number}", is_first=line_number == 1)


def read_csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield number and fields of each line of a CSV file; a line of another width is a UserError.

    Blank lines are skipped; in a file with one column, a blank line between others is an empty cell.
    """
    first: tuple[int, int] | None = None
    blank: list[int] = []
    for line_number, line in read_lines(path, "CSV"):
        if not line.strip():
            blank.append(line_number)
            continue
        where = f"{path}:{line_number}"
        fields = _split_csv(line, where)
        first_line, width = first = first or (line_number, len(fields))
        if width == 1 and line_number == first_line and (hint := separator_hint(line, "commas")):
            raise UserError(f"{where}: 1 column: {quoted(line)}{hint}")
        if len(fields) != width:
            hint = ""
            if len(fields) > width:
                hint = "; quote cells with commas, and write decimals with a point"
                hint = "; remove what is above the columns' names" if width == 1 else hint
            raise UserError(f"{where}: {len(fields)} columns, but line {first_line} has {width}: {quoted(line)}{hint}")
        if width == 1:
            yield from ((number, [""]) for number in blank if number > first_line)
        blank.clear()
        yield line_number, fields


def _split_csv(line: str, where: str) -> list[str]:
    """The cells of a line; text behind a quoted cell is part of it."""
    problem = ""
    for is_strict in (True, False):
        try:
            return [field.strip() for field in next(csv.reader([line], strict=is_strict))]
        except csv.Error as error:
            problem = str(error)
        if "end of data" in problem:
            raise UserError(f"{where}: a quote is not closed in this line, and no cell has several: {quoted(line)}")
    raise UserError(f"{where}: is not a line of a CSV file: {problem}")


@contextmanager
def _open_zip_member(path: Path) -> Iterator[IO[bytes]]:
    """Open the only file of a .zip file; several are a UserError."""
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        if len(members) != 1:
            raise UserError(f"{path}: holds {len(members)} files, expected one; unpack it, and name the file")
        with archive.open(members[0]) as stream:
            yield stream


_OPENERS: Final[Mapping[str, Callable[[Path], AbstractContextManager[Any]]]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zip": _open_zip_member,
}


def raw_lines(path: Path, kind: str = "text") -> Iterator[tuple[int, bytes]]:
    """Yield every line as bytes with its number; a bad file or too long a line is a UserError.

    The file is plain, or ends with .gz, .bz2, .xz or .zip.
    """
    if path.suffix in _OPENERS:
        refuse_pipe(path)
    try:
        with _OPENERS.get(path.suffix, partial(open, mode="rb"))(path) as stream:
            yield from bounded_lines(stream, str(path))
    except FileNotFoundError as error:
        raise UserError(missing_file_message(path)) from error
    except IsADirectoryError as error:
        raise UserError(f"{path}: is a folder, expected a {kind} file") from error
    except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        kind = "gzip" if path.suffix == ".gz" else path.suffix[1:]
        raise UserError(f"{path}: is a broken {kind} file: {error}") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error


def bounded_lines(stream: IO[bytes] | gzip.GzipFile, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a stream with their numbers from 1; one that is too long is a UserError."""
    for line_number, raw in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b""), 1):
        if len(raw) > MAX_LINE_BYTES:
            problem = f"a line of more than {MAX_LINE_BYTES:,} bytes"
            raise UserError(f"{name}:{line_number}: {problem}; {_EXPECTED_TEXT}: {_first_characters(raw)}")
        yield line_number, raw


def _first_characters(raw: bytes) -> str:
    return quoted(raw[:240].decode("utf-8", "replace").rstrip("\r\n"))


def decode_line(raw: bytes, location: str, is_first: bool = False) -> str:
    """Decode a line, without its end; a UserError if it is not UTF-8, or holds a NUL byte, as binary files do."""
    if (index := raw.find(b"\0")) >= 0:
        raise UserError(f"{location}: byte {index + 1} of the line is NUL; {_EXPECTED_TEXT}: {_first_characters(raw)}")
    try:
        line = raw.decode("utf-8-sig" if is_first else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        problem = f"byte {error.object[error.start]:#04x} at byte {error.start + 1} of the line is not UTF-8"
        raise UserError(f"{location}: {problem}; save the file as UTF-8: {_first_characters(raw)}") from error
    if is_first and line.count("\r") > 1:
        problem = "lines end with a carriage return alone"
        raise UserError(f"{location}: {problem}; save the file with line feeds: {_first_characters(raw)}")
    return line


def separator_hint(line: str, expected: Literal["tabs", "commas"] = "tabs") -> str:
    """What to do with a line whose columns are not separated as expected; empty if it shows no other separator."""
    marks = ";,|" if expected == "tabs" else ";\t|"
    separator = next((mark for mark in marks if mark in line), "")
    return f"; its columns may be separated by {separator!r}: replace that by {expected}" if separator else ""


def reject_duplicate_columns(location: str, names: Sequence[str]) -> None:
    """Refuse two columns of one name."""
    if duplicates := [name for name, count in Counter(names).items() if count > 1]:
        raise UserError(f"{location}: two columns are called {duplicates[0]!r}; rename one")


def are_column_names(cells: Sequence[str]) -> bool:
    """Whether every cell of a table's first line is a typical column name, as ``word`` and ``pronunciation`` are.

    Equal cells are none: ``question`` translates ``question``.
    """
    names = [re.sub(r"[\W_\d]+", "", cell).lower() for cell in cells]  # `Pronunciations 2` is `pronunciations`
    return len({cell.lower() for cell in cells}) > 1 and all(map(COLUMN_NAMES.fullmatch, names))
