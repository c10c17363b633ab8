"""Measure examples and tokens a second of training, without validation and warm-up; and peak memory."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor

from attnx.data.batches import Batch

# Batches before the clock starts; the first ones pay for memory and compilation.
WARMUP_BATCHES = 3


class Throughput(Callback):
    """Measures complete training steps, data loading included.

    Attributes:
        examples: rows since the clock started.
        seconds: training time of these.
        elapsed: time since training began, validations included; for a resumed run the sum over its parts.
        cpu_seconds: CPU time of this process, all threads, in ``elapsed``.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.examples, self.seconds = 0, 0.0
        self._tokens: Tensor | int = 0  # counted where the batches are, and read, which waits for a GPU, when needed
        self._batches = 0
        self._batch_start: float | None = None
        self._earlier_parts, self._start = 0.0, clock()
        self._earlier_cpu, self._cpu_start = 0.0, time.process_time()

    @property
    def tokens(self) -> int:
        """Target symbols since the clock started, EOS included, or rows of numbers."""
        return int(self._tokens)

    @property
    def examples_per_second(self) -> float:
        """Examples a second; 0 before the first measurement."""
        return self.examples / self.seconds if self.seconds else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Target tokens a second; 0 before the first measurement."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since training began, without the time between the parts of a resumed run."""
        return self._earlier_parts + self.clock() - self._start

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds since training began, without the time between the parts of a resumed run."""
        return self._earlier_cpu + time.process_time() - self._cpu_start

    def on_validation_start(self, *_: Any) -> None:
        """Stop the clock."""
        self._batch_start = None

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Batch, *_: Any) -> None:
        """Start the clock if it is stopped. Else it runs since the end of the previous batch, so loading counts."""
        if self._batch_start is None:
            self._batch_start = self.clock()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Batch, *_: Any
    ) -> None:
        """Count the batch."""
        now = self.clock()
        self._batches += 1
        if self._batches > WARMUP_BATCHES and self._batch_start is not None:
            self.seconds += now - self._batch_start
            # All processes have equally many rows, give or take one.
            self.examples += int((batch.row_index >= 0).sum()) * trainer.world_size  # not rows that only fill a shard
            self._tokens = self._tokens + batch.target_mask.sum() * trainer.world_size
        self._batch_start = now

    def state_dict(self) -> dict[str, Any]:
        """State for a resumed run."""
        counts = {"examples": self.examples, "tokens": self.tokens}
        return {**counts, "seconds": self.seconds, "elapsed": self.elapsed, "cpu_seconds": self.cpu_seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state."""
        self.examples, self._tokens, self.seconds = (state_dict[name] for name in ("examples", "tokens", "seconds"))
        self._earlier_parts, self._earlier_cpu = state_dict["elapsed"], state_dict["cpu_seconds"]


def peak_memory() -> dict[str, float]:
    """Peak megabytes of the process so far, imports included, by their names in results.json.

    ``peak_memory_mb`` is the resident memory; ``peak_gpu_memory_mb`` torch's on all GPUs.
    """
    unit = 1 if sys.platform == "darwin" else 1024
    megabytes = {"peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6}
    gpu_bytes = sum(map(torch.cuda.max_memory_allocated, range(torch.cuda.device_count())))
    if gpu_bytes:
        megabytes["peak_gpu_memory_mb"] = gpu_bytes / 1e6
    return megabytes
