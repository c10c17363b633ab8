"""Exclusive locks of files; a file system without locks counts as one on which nobody else holds any."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

MAX_NAME_BYTES = 256
PATIENCE_SECONDS, POLL_SECONDS = 0.2, 0.02
"""How long, and how often, a process tries that may have met one that only looks whether the lock is held."""
_held: set[int] = set()


def try_lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; False if another process holds the lock, and not only looks at it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _is_granted(descriptor, fcntl.LOCK_EX) is False:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


@contextlib.contextmanager
def lock_while(path: Path, when_held: Callable[[], object]) -> Iterator[None]:
    """Hold the lock of a file that exists only meanwhile.

    If another process holds it, ``when_held`` is called, which raises, or says that this process waits. The system
    frees the lock if the process dies; a process that is forked meanwhile does not hold it.
    """
    is_locked = False
    while not is_locked:
        # On NFS a lock needs a file to write to, which a folder is not.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            if not try_lock(descriptor):
                when_held()
                with contextlib.suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
            is_locked = _is_open_file(descriptor, path)  # else who held it before has removed it
        finally:
            if not is_locked:
                os.close(descriptor)
    with contextlib.suppress(OSError):  # of a full disk
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, _machine(), 0)
    _held.add(descriptor)
    try:
        yield
    finally:
        _held.discard(descriptor)
        try:
            if _is_open_file(descriptor, path):
                path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)


def _forget_locks() -> None:
    """Close what a forked process has inherited: a worker that outlives a killed run must not hold its lock."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget_locks)


def _is_open_file(descriptor: int, path: Path) -> bool:
    """Whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def is_lock_held(path: Path) -> bool:
    """Whether a process holds the lock of a file; False if it is missing, or its file system has no locks."""
    with contextlib.suppress(OSError), _open_to_look(path) as file:
        return _is_granted(file.fileno(), fcntl.LOCK_SH) is False
    return False


def is_lock_left(path: Path) -> bool:
    """Whether a process of this machine held the lock of a file and ended without removing it: it was killed.

    False if it is missing, was locked on another machine, whose locks may not be seen here, or its file system has no
    locks.
    """
    with contextlib.suppress(OSError), _open_to_look(path) as file:
        return _is_granted(file.fileno(), fcntl.LOCK_SH) is True and file.read(MAX_NAME_BYTES) == _machine()
    return False


def _open_to_look(path: Path) -> BinaryIO:
    """Open a file that no link leads to; opening a pipe does not block."""
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK))


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
