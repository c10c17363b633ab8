"""Atomic writes: a file or a folder is complete or absent."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attnx.errors import UserError

PARTIAL = ".partial"


def write_json(path: Path, value: Any, indent: int | None = 2) -> None:
    """Write a JSON file; numbers that are not finite become null, since JSON has no others."""
    finite = json.loads(json.dumps(value), parse_constant=lambda name: None)
    write_bytes(path, f"{json.dumps(finite, indent=indent, ensure_ascii=False, allow_nan=False)}\n".encode())


def write_text(path: Path, text: str) -> None:
    r"""Write a UTF-8 file with the line ends of the text.

    A byte of a file's name that is no UTF-8 is written as ``\udcff``.
    """
    write_bytes(path, text.encode(errors="backslashreplace"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file."""
    with atomic_write(path) as partial:
        partial.write_bytes(content)


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write NumPy's arrays as a compressed ``.npz`` archive."""
    import numpy as np  # a command that checks its words needs none

    with atomic_write(path) as partial, partial.open("wb") as file:  # given a path, numpy appends a suffix
        np.savez_compressed(file, **arrays)


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces ``path`` when the block ends without an exception, else is deleted.

    A process that is killed leaves the old file unchanged, and a file with the suffix ``PARTIAL``. Two processes may
    write the same file: each has a path of its own, and the last one to end replaces the file. A device or a pipe is
    not replaced: ``path`` itself is yielded.
    """
    if path.is_char_device() or path.is_fifo():
        yield path
        return
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        yield partial
        os.replace(partial, path)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == str(partial):
            error.filename = str(path)  # what a message names
        raise


def fsync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_files(folder: Path) -> None:
    """Flush the files of a folder, but not of folders in it, and then its entries to the disk."""
    for file in filter(Path.is_file, folder.iterdir()):
        fsync(file)
    fsync(folder)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to ``folder`` when the block ends without an exception, else is deleted.

    If another process has finished ``folder`` in the meantime, that one stays.

    Raises:
        UserError: the folder holds something already, or cannot be written.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"{folder}: exists already; delete the folder and write it anew")
    unfinished = folder.absolute().with_name(f"{folder.absolute().name}.{secrets.token_hex(4)}.unfinished")
    created = [parent for parent in unfinished.parents if not parent.exists()]
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
        try:
            unfinished.rename(folder)
        except OSError:
            if not (folder.is_dir() and any(folder.iterdir())):
                raise
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        for parent in created:  # the innermost first; a folder that is not empty stays
            with suppress(OSError):
                parent.rmdir()
