"""Seconds and peak bytes of work on a device: CUDA events and torch's allocator, or a clock and the profiler."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from peers.measures import Work, peak

WARMUP_CALLS, MAX_CALLS = 3, 30
MAX_SECONDS = 1.0
"""Calls are repeated until they took this long together."""


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
