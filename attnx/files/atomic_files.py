"""Files and folders that are there whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attnx.errors import UserError

PARTIAL = ".partial"


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file."""
    with whole_file(path) as partial:
        partial.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Lend a name to write a file under; it takes the place of ``path`` when the block ends well, and is gone if not.

    A process that is killed meanwhile leaves the old file as it was, and another beside it that ends in ``PARTIAL``.
    """
    partial = path.with_name(f"{path.name}{PARTIAL}")
    try:
        yield partial
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def settle(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk, so that a machine which stops keeps them."""
    place = os.open(path, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Lend a folder to write into; it gets its name when the block ends well, and is gone with all it holds if not.

    If another process has finished ``folder`` meanwhile, that one stays.

    Args:
        folder: where to; must not exist, unless it is empty.

    Raises:
        UserError: the folder holds something, or cannot be written.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"{folder}: exists already; delete the folder and write it anew")
    unfinished = folder.absolute().with_name(f"{folder.absolute().name}.{secrets.token_hex(4)}.unfinished")
    made = [parent for parent in unfinished.parents if not parent.exists()]
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
        _name(unfinished, folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        for parent in made:  # the innermost first; those that hold something stay
            with suppress(OSError):
                parent.rmdir()


def _name(unfinished: Path, folder: Path) -> None:
    try:
        unfinished.rename(folder)
    except OSError:
        if not (folder.is_dir() and any(folder.iterdir())):
            raise
