"""Lock a sweep's folder for one command at a time, and rename the folder of a sweep that starts over."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from attnx.errors import UserError
from attnx.files.atomic_files import PARTIAL
from attnx.files.file_lock import is_lock_held, try_lock
from attnx.runs.layout import LOG_TXT, RUN_LOCK, SWEEP_LOCK, refuse_link
from attnx.runs.sweep import is_sweep

# Time that the jobs of a sweep which was killed have to end; they save a checkpoint first.
ORPHAN_GRACE_SECONDS = 90.0
POLL_SECONDS = 0.1


def refuse_occupied(folder: Path) -> None:
    """Refuse a folder that is a link, or holds anything but a sweep."""
    refuse_link(folder)
    if not folder.is_dir() or is_sweep(folder):
        return
    # A sweep that was killed as it started left its lock, and perhaps a part of its record.
    if names := sorted(file.name for file in folder.iterdir() if file.name != SWEEP_LOCK and file.suffix != PARTIAL):
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
        file = os.open(folder / SWEEP_LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise UserError(f"{folder}: cannot write the sweep's folder ({error.strerror}); choose name=...") from error
    try:
        _wait_for_lock(file, folder)
        os.truncate(file, 0)
        os.pwrite(file, f"{os.getpid()} {socket.gethostname()}".encode(), 0)
        yield file
    finally:
        os.close(file)


def _wait_for_lock(file: int, folder: Path) -> None:
    deadline = time.monotonic() + ORPHAN_GRACE_SECONDS
    while not try_lock(file):
        # The holder writes its process and its machine into the file, a moment after it has locked it.
        word, _, machine = os.pread(file, 300, 0).decode(errors="replace").partition(" ")
        pid, host = int(word) if word.isdecimal() else 0, machine or socket.gethostname()
        if host != socket.gethostname():
            raise UserError(f"{folder}: another attnx runs this sweep, process {pid} of {host}; wait for it, or end it")
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
    """Rename the folder of a sweep that starts over; return the new path, None if there was no sweep.

    Raises:
        UserError: a job of it is being trained, and would go on in the new folder.
    """
    if not is_sweep(folder):
        return None
    with lock_folder(folder):
        for run in folder.glob("[0-9]*"):
            if any(is_lock_held(run / name) for name in (LOG_TXT, RUN_LOCK)):
                raise UserError(f"{run}: is being trained; wait for its end, or stop it first, or choose name=...")
        suffix = 1
        while (renamed := folder.with_name(f"{folder.name}.{suffix}")).exists():
            suffix += 1
        folder.rename(renamed)
    return renamed
