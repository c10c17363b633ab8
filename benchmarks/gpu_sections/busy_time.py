"""How long a device was busy: the union of the intervals of its kernels and copies, by torch's profiler."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.profiler import ProfilerActivity, profile

ACTIVITIES = {"cuda": ProfilerActivity.CUDA, "cpu": ProfilerActivity.CPU}
TYPES = {"cuda": "CUDA", "cpu": "CPU"}
"""The profiler's names of a device."""
Interval = tuple[float, float]
"""Start and end in microseconds."""


def device_profiler(device: torch.device) -> profile:
    """A profiler of what runs on a device."""
    return profile(activities=[ACTIVITIES[device.type]])


def device_intervals(profiler: profile, device: torch.device) -> list[Interval]:
    """The intervals of everything that ran on a device; annotations span what is idle, too, and are left out.

    Raises:
        RuntimeError: the profiler saw nothing, as without access to the GPU's counters.
    """
    events = profiler.events() or ()  # type: ignore[no-untyped-call]
    intervals = [
        (event.time_range.start, event.time_range.end)
        for event in events
        if event.device_type.name == TYPES[device.type] and not event.is_user_annotation
    ]
    if not intervals:
        raise RuntimeError("torch's profiler saw no kernel")
    return intervals


def covered_microseconds(intervals: Iterable[Interval]) -> float:
    """The length of the union of intervals.

    >>> covered_microseconds([(0, 3), (2, 5), (7, 8), (7, 8)])
    6.0
    """
    total, last = 0.0, 0.0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, last))
        last = max(last, end)
    return total
