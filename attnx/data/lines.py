"""The lines of a UTF-8 text file, plain or ``.gz``, with their numbers, so that a mistake is told with its place."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from attnx.errors import UserError


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
        UserError: ``file: what is wrong`` for a bad file.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            yield from enumerate(stream, 1)
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise UserError(f"{path}: is a folder, expected a {kind} file") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: is a broken gzip file: {error}") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error


def decode_line(raw: bytes, where: str, first: bool = False) -> str:
    """The text of a line, without its end.

    Args:
        raw: its bytes.
        where: its place, for the message.
        first: whether it may begin with a byte order mark.

    Raises:
        UserError: it is not UTF-8.
    """
    try:
        return raw.decode("utf-8-sig" if first else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        wrong = f"byte {error.object[error.start]:#04x} at byte {error.start + 1} of the line is not UTF-8"
        raise UserError(f"{where}: {wrong}; save the file as UTF-8") from error
