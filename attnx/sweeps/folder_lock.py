"""Holds a sweep's folder for one command at a time, and puts an old one aside when a sweep starts over."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from attnx.errors import UserError
from attnx.files.atomic_files import PARTIAL
from attnx.runs.layout import LOCK, SWEEP
from attnx.runs.naming import refuse_link
from attnx.runs.sweep import is_sweep

# Seconds that jobs of a sweep which was killed have to end; they save a checkpoint first.
PATIENCE = 90.0
SECONDS = 0.1
# What the folder of a sweep holds that was killed as it began.
BEGUN = {LOCK, f"{SWEEP}{PARTIAL}"}


def refuse_occupied(folder: Path) -> None:
    """See that the folder of a sweep's name is a sweep's, or free to become one.

    Raises:
        UserError: it is a link, or holds something else.
    """
    refuse_link(folder)
    if not folder.is_dir() or is_sweep(folder):
        return
    if other := sorted({file.name for file in folder.iterdir()} - BEGUN):
        raise UserError(f"{folder}: is not the folder of a sweep, it holds {other[0]}; choose another name=...")


@contextlib.contextmanager
def held(folder: Path) -> Iterator[int]:
    """Hold a sweep's folder; give the number of the open file that holds it.

    A process that inherits the file holds the folder too, so jobs which outlive their sweep are waited for.

    Raises:
        UserError: the folder cannot be written, or another command runs the sweep.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise UserError(f"{folder}: cannot write the sweep's folder ({error.strerror}); choose name=...") from error
    try:
        _wait(file, folder)
        os.truncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        yield file
    finally:
        os.close(file)


def _wait(file: int, folder: Path) -> None:
    until = time.monotonic() + PATIENCE
    while not _locked(file):
        holder = int(os.pread(file, 20, 0) or 0)
        if _alive(holder):
            raise UserError(f"{folder}: another attnx runs this sweep, process {holder}; wait for it, or end it")
        if time.monotonic() > until:
            raise UserError(f"{folder}: jobs of a sweep that was killed do not end; end them, or choose name=...")
        time.sleep(SECONDS)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return process > 0


def put_aside(folder: Path) -> Path | None:
    """Rename the folder of a sweep that starts over; return its new name, None if there was no sweep.

    Raises:
        UserError: another command runs the sweep.
    """
    if not is_sweep(folder):
        return None
    with held(folder):
        number = 1
        while (aside := folder.with_name(f"{folder.name}.{number}")).exists():
            number += 1
        folder.rename(aside)
    return aside
