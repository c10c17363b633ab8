"""The process itself: the CPU cores that it may use, and its end when its parent dies."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

from attnx.errors import ExitCode

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
PARENT_POLL_SECONDS = 1.0


def available_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def interrupt_with_parent(parent: int, signum: int = signal.SIGINT, grace_seconds: float | None = None) -> None:
    """Have this process signaled when its parent has died.

    Linux does that itself (prctl); elsewhere a thread polls once a second. A thread ends the process if it does not end
    by itself within ``grace_seconds``, if given.
    """
    is_signaled = sys.platform == "linux" and not ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signum, 0, 0, 0)
    if is_signaled and os.getppid() != parent:  # it died before prctl was called
        os.kill(os.getpid(), signum)
    if not is_signaled or grace_seconds is not None:
        thread_signal = 0 if is_signaled else signum  # 0 sends nothing
        threading.Thread(target=watch_parent, args=[parent, thread_signal, grace_seconds], daemon=True).start()


def watch_parent(parent: int, signum: int, grace_seconds: float | None = None) -> None:
    """Wait until the parent has died; then signal this process, and end it after ``grace_seconds``, if given."""
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_SECONDS)
    os.kill(os.getpid(), signum)
    if grace_seconds is not None:
        time.sleep(grace_seconds)
        os._exit(ExitCode.INTERRUPTED)
