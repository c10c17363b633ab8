"""Report a job's step to its sweep, in a small file."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from attnx.files.atomic_files import write_json

# Environment variable naming the file; a run that is no job of a sweep has none.
PROGRESS_VARIABLE = "ATTNX_PROGRESS"
INTERVAL_SECONDS = 0.5


class Heartbeat:
    """Writes the step into the file that ``$ATTNX_PROGRESS`` names, at most twice a second."""

    def __init__(self) -> None:
        self.file = Path(os.environ[PROGRESS_VARIABLE]) if os.environ.get(PROGRESS_VARIABLE) else None
        self._next_write = 0.0

    def beat(self, step: int) -> None:
        """Write the step if it is time to; an error of the file system does not stop training."""
        if self.file is None or time.monotonic() < self._next_write:
            return
        self._next_write = time.monotonic() + INTERVAL_SECONDS
        with contextlib.suppress(OSError):
            write_json(self.file, {"step": step})
