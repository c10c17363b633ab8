"""Interrupt a process when its parent has died, however the parent died."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

from attnx.errors import ExitCode

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
POLL_SECONDS = 1.0


def interrupt_with_parent(parent: int, signum: int = signal.SIGINT, grace_seconds: float | None = None) -> None:
    """Have this process signaled when its parent has died.

    Linux does that itself (prctl); elsewhere a thread polls once a second.

    Args:
        parent: the parent's process id.
        signum: the signal.
        grace_seconds: time that the process then has to end by itself; a thread ends it afterwards. None for no limit.
    """
    is_signaled = sys.platform == "linux" and not ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signum, 0, 0, 0)
    if is_signaled and os.getppid() != parent:  # it died before prctl was called
        os.kill(os.getpid(), signum)
    if not is_signaled or grace_seconds is not None:
        thread_signal = 0 if is_signaled else signum  # 0 sends nothing
        threading.Thread(target=_watch_parent, args=[parent, thread_signal, grace_seconds], daemon=True).start()


def _watch_parent(parent: int, signum: int, grace_seconds: float | None) -> None:
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os.kill(os.getpid(), signum)
    if grace_seconds is not None:
        time.sleep(grace_seconds)
        os._exit(ExitCode.INTERRUPTED)
