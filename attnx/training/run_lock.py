"""A lock on a run's folder, so that two processes never train the same run."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from attnx.errors import UserError
from attnx.files.file_lock import is_open_file, try_lock, write_owner
from attnx.runs.layout import RUN_LOCK

PATIENCE_SECONDS = 0.2
"""Seconds to wait for one that only looks whether the lock is held."""
POLL_SECONDS = 0.02
_descriptors: set[int] = set()


@contextlib.contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Hold the lock of a run's folder: a file that is there meanwhile.

    The system frees it with the process, and a file system may have no locks.

    Raises:
        UserError: another process holds it.
    """
    path = folder / RUN_LOCK
    descriptor = _lock(path)
    _descriptors.add(descriptor)
    try:
        yield
    finally:
        _descriptors.discard(descriptor)
        try:
            if is_open_file(descriptor, path):
                path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)


def _lock(path: Path) -> int:
    """The descriptor of the locked file. On NFS a lock needs one to write to, which a folder has not."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        if not try_lock(descriptor):
            os.close(descriptor)
            if time.monotonic() > deadline:
                raise UserError(f"{path.parent}: another process trains this run; wait for its end, or stop it first")
            time.sleep(POLL_SECONDS)
        elif is_open_file(descriptor, path):
            write_owner(descriptor)
            return descriptor
        else:
            os.close(descriptor)  # who held it before has removed it


def _forget_locks() -> None:
    """Close what a forked process has inherited: a worker that outlives a killed run must not hold its lock."""
    for descriptor in _descriptors:
        os.close(descriptor)
    _descriptors.clear()


os.register_at_fork(after_in_child=_forget_locks)
