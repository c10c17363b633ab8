"""Measures how long a model takes to decode a token, and the memory of it, by context."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any

import torch

from attnx.data.vocabulary import SPECIALS, Vocabulary
from attnx.errors import is_out_of_memory
from attnx.inference.trained_run import TrainedRun

REPEATS, WARM_UP_STEPS = 9, 2
CLEAR_PEAK = "5"  # what resets the peak of a Linux process (man 5 proc)


@torch.no_grad()
def measure_latency(run: TrainedRun, contexts: Sequence[int], device: torch.device) -> Iterator[dict[str, float]]:
    """Measure a decoded token after each context, one row at a time, by the names of cost.json, until memory runs out.

    The time is the median. The memory is the peak of the process, or torch's on a GPU, where the system reports it. The
    context is what attention has to read of the source, if it reads that. One that the model does not take, such as one
    beyond its learned positions, ends the measurement, too.
    """
    model: Any = run.model.eval().to(device)
    reads_source = "encoder" in model.sources
    seconds, later_seconds = list[float](), iter(list[float]())
    for context in sorted(contexts):
        _reset_peak(device)
        try:
            if reads_source:
                rows, limit, seconds = model.source_rows(context), model.target.steps, []
                later_seconds = time_steps(model, _first_state(model, run, rows, device), device, limit)
            elif not seconds:  # else decoding goes on from the last context
                later_seconds = time_steps(model, _first_state(model, run, 0, device), device)
            steps = (0 if reads_source else context) + WARM_UP_STEPS + REPEATS
            seconds += islice(later_seconds, steps - len(seconds))
        except (RuntimeError, IndexError, ValueError, MemoryError) as error:
            if is_out_of_memory(error) or context > min(contexts):
                return
            raise
        memory_mb = _peak_mb(device)
        memory = {} if memory_mb is None else {f"decode_memory_mb_{context}": memory_mb}
        yield {f"decode_ms_{context}": 1000 * median(seconds[-REPEATS:]), **memory}


def time_steps(model: Any, state: Any, device: torch.device, limit: int | None = None) -> Iterator[float]:
    """The seconds of each step from a state, from which decoding starts again after ``limit`` of them."""
    first = None if limit is None else state  # a state may be large
    for step in count():
        if limit is not None and step % limit == 0:
            state = first
        start = _now(device)
        _, state, _ = model.decode_step(model.target.start_input(1, device), state)
        yield _now(device) - start


def _first_state(model: Any, run: TrainedRun, source_length: int, device: torch.device) -> Any:
    """The state of one row before the first output, after a source of so many steps; 0 if none is attended to."""
    # A model that continues its source starts from nothing; another encodes its source, attended to or not.
    length = source_length or (0 if run.task.is_continuation else 1)
    if isinstance(run.source, Vocabulary):  # symbols in turn, (1, length)
        ids = torch.arange(length) % max(1, len(run.source) - len(SPECIALS)) + len(SPECIALS)
        inputs = ids.clamp(max=len(run.source) - 1)[None]
    else:
        inputs = torch.zeros(1, length, run.source.width)
    source, _ = model.target.prepare(inputs.to(device))
    return model.init_state(source, torch.ones(source.shape[:2], dtype=torch.bool, device=device))


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text(CLEAR_PEAK, encoding="ascii")


def _peak_mb(device: torch.device) -> float | None:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    if sys.platform != "linux":
        return None
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) / 1e6 for line in lines if line.startswith("VmHWM:"))
