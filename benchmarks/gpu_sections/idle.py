"""The share of a training step in which a GPU idles: one less its kernels' intervals over the time of the step.

The profiler slows the host down, so the share without it is at most the one measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from gpu_sections.busy_time import covered_microseconds, device_intervals, device_profiler
from gpu_sections.cases import Case, Figures, Setting
from gpu_sections.row_names import ATTNX, BY_HAND, FLOAT32, IDLE, LOOP, WITH_GRAPHS, training_row
from gpu_sections.steps import CHECK_STEPS, SCHEDULES, STEPS, Steps, Train, watch_steps
from gpu_sections.timing import synchronize
from gpu_sections.training import trainings

PROFILED_STEPS = 20
SECONDS = {BY_HAND: 5.0, ATTNX: 7.0, WITH_GRAPHS: 35.0}
"""Planned for a training: its start, 170 steps, and compilation and recording of graphs."""


def cases(setting: Setting) -> Iterator[Case]:
    """Every schedule in float32, the one with a loop first."""
    for schedule in [LOOP] if setting.is_check else sorted(SCHEDULES, key=lambda name: name != LOOP):
        for row, train in trainings(setting, schedule, FLOAT32).items():
            measure = partial(_measure, setting, train)
            yield Case(training_row(row, schedule, FLOAT32), measure, SECONDS[row])


def _measure(setting: Setting, train: Train) -> Figures:
    steps = CHECK_STEPS if setting.is_check else Steps(STEPS.warmup, PROFILED_STEPS)
    profiler = device_profiler(setting.device)
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
    seconds, intervals = stamps[1] - stamps[0], device_intervals(profiler, setting.device)
    return {
        IDLE: 100 * (1 - covered_microseconds(intervals) / 1e6 / seconds),
        "kernels a step": len(intervals) / steps.measured,
        "ms a step": 1000 * seconds / steps.measured,
    }
