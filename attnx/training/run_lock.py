"""A lock on a run's folder, so that two processes never train the same run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from attnx.errors import UserError

_descriptors: set[int] = set()


@contextlib.contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Hold the lock of a run's folder. The system frees it with the process, and a file system may have no locks.

    Raises:
        UserError: another process holds it.
    """
    import fcntl  # not on every system

    descriptor = os.open(folder, os.O_RDONLY)
    _descriptors.add(descriptor)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{folder}: another process trains this run; wait for its end, or stop it first") from None
        except OSError:  # no locks here
            pass
        yield
    finally:
        _descriptors.discard(descriptor)
        os.close(descriptor)


def _forget_locks() -> None:
    """Close what a forked process has inherited: a worker that outlives a killed run must not hold its lock."""
    for descriptor in _descriptors:
        os.close(descriptor)
    _descriptors.clear()


os.register_at_fork(after_in_child=_forget_locks)
