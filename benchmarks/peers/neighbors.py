"""The CPUs that other programs use during a measurement: the reason to distrust it.

Threads that wait for each other at every small operation can lose far more than the CPU time that others take, and
some programs lose more than others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

STAT = Path("/proc/stat")

BUSY = 0.2
"""From this many CPUs used by others on, a measurement is called disturbed."""


def watch_neighbors() -> Callable[[], float | None]:
    """Start watching; the returned function gives the mean number of CPUs that others have used since.

    It counts everything but this process and its finished children. None where there is no ``/proc/stat``.
    """
    if not STAT.exists():
        return lambda: None
    start, seconds = time.perf_counter(), _cpu_seconds_of_others()
    return lambda: max(0.0, (_cpu_seconds_of_others() - seconds) / (time.perf_counter() - start))


def _cpu_seconds_of_others() -> float:
    # The fields: user, nice, system, idle, iowait, irq, softirq, steal. Idle and iowait are nobody's.
    ticks = [int(field) for field in STAT.read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    used = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
    return used - sum(os.times()[:4])
