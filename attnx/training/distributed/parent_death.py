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


def end_with(parent: int, number: int = signal.SIGINT) -> None:
    """Have this process interrupted, as by Ctrl-C, when the process that started it is gone.

    Linux does that by itself; elsewhere a thread looks every second.

    Args:
        parent: the number of the process that started this one.
        number: the signal to send it instead.
    """
    if sys.platform == "linux" and ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) == 0:
        if os.getppid() != parent:  # it was gone before it could be watched
            os.kill(os.getpid(), number)
        return
    threading.Thread(target=_watch, args=[parent, number], daemon=True).start()


def _watch(parent: int, number: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS)
    os.kill(os.getpid(), number)
