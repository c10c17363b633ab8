"""A process that ends with the one that started it, however that one ended."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
SECONDS = 1.0


def end_with(parent: int) -> None:
    """Have this process interrupted, as by Ctrl-C, when the process that started it is gone.

    Linux does that by itself; elsewhere a thread looks every second.

    Args:
        parent: the number of the process that started this one.
    """
    if sys.platform == "linux" and ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0) == 0:
        if os.getppid() != parent:  # it was gone before it could be watched
            os.kill(os.getpid(), signal.SIGINT)
        return
    threading.Thread(target=_watch, args=[parent], daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS)
    os.kill(os.getpid(), signal.SIGINT)
