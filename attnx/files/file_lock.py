"""Whether the lock of a file is held."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def is_lock_held(path: Path) -> bool:
    """Whether a process holds the lock of a file; False if it is missing, or its file system has no locks."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe would block
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False
