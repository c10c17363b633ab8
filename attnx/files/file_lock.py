"""Exclusive locks of files; a file system without locks counts as one on which nobody else holds any."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path


def try_lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; False if another process holds the lock."""
    return _is_granted(descriptor, fcntl.LOCK_EX)


def wait_for_lock(descriptor: int) -> None:
    """Lock an open file until it is closed, once no other process holds the lock."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def unlock(descriptor: int) -> None:
    """Free the lock of an open file, also where a forked process has the file open."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def is_lock_held(path: Path) -> bool:
    """Whether a process holds the lock of a file; False if it is missing, or its file system has no locks."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe would block
    except OSError:
        return False
    try:
        return not _is_granted(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _is_granted(descriptor: int, kind: int) -> bool:
    """Ask for a lock of an open file; False if another process holds it."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # of a file system without locks
        return True
    return True
