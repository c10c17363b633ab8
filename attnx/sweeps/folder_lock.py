"""Lock a sweep's folder for one command at a time, and rename the folder of a sweep that starts over."""

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

# Time that the jobs of a sweep which was killed have to end; they save a checkpoint first.
ORPHAN_GRACE_SECONDS = 90.0
POLL_SECONDS = 0.1
# Files in the folder of a sweep that was killed as it started.
FIRST_FILES = {LOCK, f"{SWEEP}{PARTIAL}"}


def refuse_occupied(folder: Path) -> None:
    """Refuse a folder that is a link, or holds anything but a sweep."""
    refuse_link(folder)
    if not folder.is_dir() or is_sweep(folder):
        return
    if names := sorted({file.name for file in folder.iterdir()} - FIRST_FILES):
        raise UserError(f"{folder}: is not the folder of a sweep, it holds {names[0]}; choose another name=...")


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[int]:
    """Lock a sweep's folder; give the file descriptor of the lock.

    A process that inherits the descriptor holds the lock, too, so a command waits for jobs of a sweep that was killed.

    Raises:
        UserError: the folder cannot be written, or another command runs the sweep.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise UserError(f"{folder}: cannot write the sweep's folder ({error.strerror}); choose name=...") from error
    try:
        _wait_for_lock(file, folder)
        os.truncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        yield file
    finally:
        os.close(file)


def _wait_for_lock(file: int, folder: Path) -> None:
    deadline = time.monotonic() + ORPHAN_GRACE_SECONDS
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        pid = int(os.pread(file, 20, 0) or 0)
        if _is_alive(pid):
            raise UserError(f"{folder}: another attnx runs this sweep, process {pid}; wait for it, or end it")
        if time.monotonic() > deadline:
            raise UserError(f"{folder}: jobs of a sweep that was killed do not end; end them, or choose name=...")
        time.sleep(POLL_SECONDS)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid > 0


def rename_existing(folder: Path) -> Path | None:
    """Rename the folder of a sweep that starts over; return the new path, None if there was no sweep."""
    if not is_sweep(folder):
        return None
    with lock_folder(folder):
        suffix = 1
        while (renamed := folder.with_name(f"{folder.name}.{suffix}")).exists():
            suffix += 1
        folder.rename(renamed)
    return renamed
