"""The share of a training step in which a GPU idles: one less its kernels' intervals over the time of the step.

The profiler slows the host down, so the share without it is at most the one measured.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from functools import partial

from torch.profiler import ProfilerActivity, profile

from gpu_sections.cases import Case, Figures, Setting
from gpu_sections.row_names import FLOAT32, IDLE, LOOP, training_row
from gpu_sections.steps import CHECK_STEPS, SCHEDULES, STEPS, Steps, Train, watch_steps
from gpu_sections.timing import synchronize
from gpu_sections.training import trainings

PROFILED_STEPS = 20
ACTIVITIES = {"cuda": ProfilerActivity.CUDA, "cpu": ProfilerActivity.CPU}
TYPES = {"cuda": ("kernel", "gpu_memcpy", "gpu_memset"), "cpu": ("cpu_op",)}
"""The profiler's names of what runs on a device; its annotations span what is idle, too."""


def cases(setting: Setting) -> Iterator[Case]:
    """Every schedule in float32."""
    for schedule in [LOOP] if setting.is_check else SCHEDULES:
        for row, train in trainings(setting, schedule, FLOAT32).items():
            yield Case(training_row(row, schedule, FLOAT32), partial(_measure, setting, train))


def _measure(setting: Setting, train: Train) -> Figures:
    steps = CHECK_STEPS if setting.is_check else Steps(STEPS.warmup, PROFILED_STEPS)
    profiler = profile(activities=[ACTIVITIES[setting.device.type]])
    stamps = []

    def begin() -> None:
        synchronize(setting.device)
        profiler.start()
        stamps.append(time.perf_counter())

    def end() -> None:
        synchronize(setting.device)
        stamps.append(time.perf_counter())
        profiler.stop()

    with watch_steps(steps, begin, end):
        train(sum(steps) + 1)
    seconds, intervals = stamps[1] - stamps[0], _intervals(profiler, TYPES[setting.device.type])
    return {
        IDLE: 100 * (1 - covered(intervals) / 1e9 / seconds),
        "kernels a step": len(intervals) / steps.measured,
        "ms a step": 1000 * seconds / steps.measured,
    }


def _intervals(profiler: profile, types: Collection[str]) -> list[tuple[int, int]]:
    """Start and end in nanoseconds of everything of these types."""
    assert profiler.profiler is not None
    results = profiler.profiler.kineto_results
    assert results is not None
    return [(event.start_ns(), event.end_ns()) for event in results.events() if event.activity_type() in types]


def covered(intervals: Iterable[tuple[int, int]]) -> int:
    """The length of the union of intervals.

    >>> covered([(0, 3), (2, 5), (7, 8), (7, 8)])
    6
    """
    total, last = 0, 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, last))
        last = max(last, end)
    return total
