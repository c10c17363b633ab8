"""Exclusive locks of files; a file system without locks counts as one on which nobody else holds any."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

MAX_NAME_BYTES = 256


def try_lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; False if another process holds the lock."""
    return _is_granted(descriptor, fcntl.LOCK_EX) is not False


def wait_for_lock(descriptor: int) -> None:
    """Lock an open file until it is closed, once no other process holds the lock."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def unlock(descriptor: int) -> None:
    """Free the lock of an open file, also where a forked process has the file open."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextlib.contextmanager
def lock_while(path: Path, show_waiting: Callable[[], object]) -> Iterator[None]:
    """Hold the lock of a file that exists only meanwhile; a process that comes later calls ``show_waiting``, and waits.

    The system frees the lock if the process dies.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        if not try_lock(descriptor):
            show_waiting()
            wait_for_lock(descriptor)
        if is_open_file(descriptor, path):
            break
        os.close(descriptor)  # who held it before has removed it
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        unlock(descriptor)
        os.close(descriptor)


def is_open_file(descriptor: int, path: Path) -> bool:
    """Whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def is_lock_held(path: Path) -> bool:
    """Whether a process holds the lock of a file; False if it is missing, or its file system has no locks."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe would block
    except OSError:
        return False
    try:
        return _is_granted(descriptor, fcntl.LOCK_SH) is False
    finally:
        os.close(descriptor)


def write_owner(descriptor: int) -> None:
    """Write into a locked file that a process of this machine holds it."""
    with contextlib.suppress(OSError):  # of a full disk
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, _machine(), 0)


def is_lock_left(path: Path) -> bool:
    """Whether a process of this machine held the lock of a file and ended without removing it: it was killed.

    False if it is missing, was locked on another machine, whose locks may not be seen here, or its file system has no
    locks.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return _is_granted(descriptor, fcntl.LOCK_SH) is True and os.read(descriptor, MAX_NAME_BYTES) == _machine()
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _machine() -> bytes:
    return os.uname().nodename.encode()[: MAX_NAME_BYTES - 1]


def _is_granted(descriptor: int, kind: int) -> bool | None:
    """Ask for a lock of an open file; False if another process holds it, None if the file system has no locks."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
