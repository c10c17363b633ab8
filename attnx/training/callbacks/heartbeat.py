"""Tells a sweep how far its job is, by a small file."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from attnx.files.atomic_files import write_json

# Names the file in a job's environment; who has none is not listened to.
LISTENS = "ATTNX_PROGRESS"
SECONDS = 0.5


class Heartbeat:
    """Writes the step into the file that ``$ATTNX_PROGRESS`` names, twice a second at most."""

    def __init__(self) -> None:
        self.file = Path(os.environ[LISTENS]) if os.environ.get(LISTENS) else None
        self._next = 0.0

    def beat(self, step: int) -> None:
        """Write, if it is time to; training does not stop because nobody can be told of it."""
        if self.file is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + SECONDS
        with contextlib.suppress(OSError):
            write_json(self.file, {"step": step})
