"""The lines of a UTF-8 text file, plain or ``.gz``, with their numbers, so that a mistake is told with its place."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from attnx.data.near_files import no_such_file
from attnx.errors import UserError
from attnx.files.printable import quoted

# Bytes of a line; and of one that is longer, those that are counted.
LONGEST_LINE: Final = 2**20
MOST_COUNTED: Final = 2**30
END: Final = b"\n"
_NO_TEXT: Final = "and this should be a text file of lines"
COLUMN_NAMES: Final = re.compile(
    "word|grapheme|letter|spelling|orthography|pronunciation|phone|phoneme|transcription|ipa|arpabet|"
    "source|target|src|tgt|trg|input|output|sentence|translation|reference|hypothesis|text|label|answer|"
    "tag|language|lang|locale|speaker|id|name|file|filename|path|feature|sequence"
)


def read_lines(path: Path, kind: str = "text") -> Iterator[tuple[int, str]]:
    r"""Yield every line, blank ones too, with its number from 1; a byte order mark and line ends are taken off.

    A line ends at a line feed (with or without a carriage return) and nowhere else: two parallel files keep in step
    whatever else Unicode calls a line's end. ``kind`` says what sort of file was expected where there is a folder.

    Raises:
        UserError: ``file:line: what is wrong`` for a line that is not UTF-8, ``file: what is wrong`` for a bad file.
    """
    for number, raw in raw_lines(path, kind):
        # Decoded line by line: a text stream decodes in blocks, blind to the line a bad byte is on.
        yield number, decode_line(raw, f"{path}:{number}", first=number == 1)


def raw_lines(path: Path, kind: str = "text") -> Iterator[tuple[int, bytes]]:
    """Yield every line as it stands, its end included, with its number from 1: for those who go on after a bad one.

    Raises:
        UserError: ``file: what is wrong`` for a bad file, ``file:line: what is wrong`` for a line that is too long.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            yield from bounded_lines(stream, str(path))
    except FileNotFoundError as error:
        raise UserError(no_such_file(path)) from error
    except IsADirectoryError as error:
        raise UserError(f"{path}: is a folder, expected a {kind} file") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: is a broken gzip file: {error}") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error


def bounded_lines(stream: BinaryIO | gzip.GzipFile, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a stream with their numbers from 1; one that is too long is not held in memory.

    Raises:
        UserError: a line is longer than ``LONGEST_LINE``, with its place and its length.
    """
    lines = iter(lambda: stream.readline(LONGEST_LINE + 1), b"")
    for number, raw in enumerate(lines, 1):
        if len(raw) > LONGEST_LINE:
            raise UserError(f"{name}:{number}: a line of {_length(raw, lines)} bytes, {_NO_TEXT}: {_beginning(raw)}")
        yield number, raw


def _length(raw: bytes, following: Iterator[bytes]) -> str:
    """How long the line is that begins so, without its end; of an endless one, as far as it was looked at."""
    length = len(raw)
    while not raw.endswith(END) and length < MOST_COUNTED and (raw := next(following, b"")):
        length += len(raw)
    return f"at least {length:,}" if length >= MOST_COUNTED else f"{length - raw.endswith(END):,}"


def _beginning(raw: bytes) -> str:
    return quoted(raw[:240].decode("utf-8", "replace").rstrip("\r\n"))


def decode_line(raw: bytes, where: str, first: bool = False) -> str:
    """The text of a line, without its end.

    Args:
        raw: its bytes.
        where: its place, for the message.
        first: whether it may begin with a byte order mark.

    Raises:
        UserError: it is not UTF-8, or holds a NUL byte, as binary files and those in UTF-16 do.
    """
    if (place := raw.find(b"\0")) >= 0:
        raise UserError(f"{where}: byte {place + 1} of the line is NUL, {_NO_TEXT}: {_beginning(raw)}")
    try:
        return raw.decode("utf-8-sig" if first else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        wrong = f"byte {error.object[error.start]:#04x} at byte {error.start + 1} of the line is not UTF-8"
        raise UserError(f"{where}: {wrong}; save the file as UTF-8: {_beginning(raw)}") from error


def refuse_header(cells: Sequence[str], where: str) -> None:
    """Refuse the first line of a table if each of its cells is what a column is called, and none can be data.

    Training on it would be silent, and a pair of such words is rare; where it is one, it can stand on any other line.

    Raises:
        UserError: it is a line of column names.
    """
    if len(cells) > 1 and all(COLUMN_NAMES.fullmatch(_column_name(cell)) for cell in cells):
        shown = quoted("\t".join(cells))
        mend = "remove the line, or if it is data, let another be the first"
        raise UserError(f"{where}: column names ({shown}) where data should begin; {mend}")


def _column_name(cell: str) -> str:
    """Without case, numbers behind it and a number of it: ``Pronunciations 2`` is ``pronunciation``."""
    return re.sub(r"[\W_\d]+", "", cell).lower().removesuffix("s")
