"""Seconds, peak bytes and busy time of work on a device: CUDA events and torch's allocator, a clock, the profiler."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from statistics import median

import torch
from peers.measures import Work, peak
from torch.profiler import ProfilerActivity, profile

WARMUP_CALLS, MAX_CALLS = 3, 30
MAX_SECONDS = 1.0
"""Calls are repeated until they took this long together."""
ACTIVITIES = {"cuda": ProfilerActivity.CUDA, "cpu": ProfilerActivity.CPU}
TYPES = {"cuda": "CUDA", "cpu": "CPU"}
"""The profiler's names of a device."""
Interval = tuple[float, float]
"""Start and end in microseconds."""


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has done what it was sent; a CPU has."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def median_seconds(work: Work, device: torch.device) -> float:
    """The median time of calls after a warm-up."""
    for _ in range(WARMUP_CALLS):
        work()
    time_call, seconds = TIMERS[device.type], [0.0]
    while len(seconds) <= MAX_CALLS and sum(seconds) < MAX_SECONDS:
        seconds.append(time_call(work))
    return median(seconds[1:])


def peak_bytes(work: Work, device: torch.device) -> float:
    """The peak of torch's allocated bytes in a call after a warm-up, results included and operands not."""
    if device.type == "cpu":
        return peak(work)
    work()
    synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    start = torch.cuda.memory_allocated(device)
    work()
    synchronize(device)
    return torch.cuda.max_memory_allocated(device) - start


def _by_events(work: Work) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1000


def _by_clock(work: Work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


TIMERS: dict[str, Callable[[Work], float]] = {"cuda": _by_events, "cpu": _by_clock}


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
