"""How long a device was busy: the union of the intervals of its kernels and copies, by torch's profiler."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.profiler import ProfilerActivity, profile

ACTIVITIES = {"cuda": ProfilerActivity.CUDA, "cpu": ProfilerActivity.CPU}
TYPES = {"cuda": ("kernel", "gpu_memcpy", "gpu_memset"), "cpu": ("cpu_op",)}
"""The profiler's names of what runs on a device; its annotations span what is idle, too."""
Interval = tuple[int, int]
"""Start and end in nanoseconds."""


def device_profiler(device: torch.device) -> profile:
    """A profiler of what runs on a device."""
    return profile(activities=[ACTIVITIES[device.type]])


def device_intervals(profiler: profile, device: torch.device) -> list[Interval]:
    """The intervals of everything that ran on a device.

    Raises:
        RuntimeError: the profiler saw nothing, as without access to the GPU's counters.
    """
    assert profiler.profiler is not None
    results = profiler.profiler.kineto_results
    assert results is not None
    types = TYPES[device.type]
    intervals = [(event.start_ns(), event.end_ns()) for event in results.events() if event.activity_type() in types]
    if not intervals:
        raise RuntimeError("torch's profiler saw no kernel")
    return intervals


def covered_nanoseconds(intervals: Iterable[Interval]) -> int:
    """The length of the union of intervals.

    >>> covered_nanoseconds([(0, 3), (2, 5), (7, 8), (7, 8)])
    6
    """
    total, last = 0, 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, last))
        last = max(last, end)
    return total
