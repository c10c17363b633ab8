"""Starts the command attnx, and ends it in time."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence

POLL_SECONDS = 0.5


class Deadline:
    """When to stop: after some minutes, or when Ctrl-C or SIGTERM asks for it."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + 60 * minutes
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, self._stop)

    @property
    def has_passed(self) -> bool:
        """Whether it is time to stop."""
        return time.monotonic() >= self._end

    def _stop(self, *_: object) -> None:
        self._end = time.monotonic()


def run_attnx(words: Sequence[str], deadline: Deadline) -> int:
    """Run attnx until it ends, or, at the deadline, has saved and stopped; return its exit code."""
    command = [sys.executable, "-m", "attnx", *words]
    process = subprocess.Popen(command, start_new_session=True)  # Ctrl-C reaches it through the deadline alone
    while process.poll() is None and not deadline.has_passed:
        time.sleep(POLL_SECONDS)
    if process.poll() is None:
        process.terminate()
    return process.wait()
