"""Measures how long a model takes to decode a token, and the memory of it, by context."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch

from attnx.data.vocabulary import SPECIALS, Vocabulary
from attnx.errors import is_out_of_memory
from attnx.inference.trained_run import TrainedRun

REPEATS, WARM_UP_STEPS = 9, 2
CLEAR_PEAK = "5"  # what resets the peak of a Linux process (man 5 proc)


class Latency(NamedTuple):
    """The median time of a decoded token after ``context`` positions, one row at a time, and the peak of memory.

    The memory is the process's, or torch's on a GPU; None where the system does not report it.
    """

    context: int
    milliseconds: float
    memory_mb: float | None

    def results(self) -> dict[str, float]:
        """The numbers by their names in cost.json."""
        memory = {} if self.memory_mb is None else {f"decode_memory_mb_{self.context}": self.memory_mb}
        return {f"decode_ms_{self.context}": self.milliseconds, **memory}


@torch.inference_mode()
def measure_latency(run: TrainedRun, contexts: Sequence[int], device: torch.device) -> Iterator[Latency]:
    """Measure each context, until memory runs out; the context is the source's length, if attention reads the source.

    A context that the model does not take, such as one beyond its learned positions, ends the measurement, too.
    """
    model: Any = run.model.eval().to(device)
    reads_source = "encoder" in model.sources
    state, seconds = None, list[float]()  # of each decoded step
    for context in sorted(contexts):
        _reset_peak(device)
        try:
            if state is None or reads_source:  # else decoding goes on from the last context
                state, seconds = _first_state(model, run, context if reads_source else 0, device), []
            num_steps = (0 if reads_source else context) + WARM_UP_STEPS + REPEATS
            while len(seconds) < num_steps:
                start = _now(device)
                _, state, _ = model.decode_step(model.target.start_input(1, device), state)
                seconds.append(_now(device) - start)
        except (RuntimeError, IndexError, ValueError, MemoryError) as error:
            if is_out_of_memory(error) or context > min(contexts):
                return
            raise
        yield Latency(context, 1000 * median(seconds[-REPEATS:]), _peak_mb(device))


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
