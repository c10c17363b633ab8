"""Measure examples and tokens a second of training, without validation and warm-up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback

from attnx.data.batches import Batch

# Batches before the clock starts; the first ones pay for memory and compilation.
WARMUP_BATCHES = 3


class Throughput(Callback):
    """Measures complete training steps, data loading included.

    Args:
        clock: returns seconds.

    Attributes:
        examples: rows since the clock started.
        tokens: target symbols, EOS included, or rows of numbers.
        seconds: training time of these.
        elapsed: time since training began, validations included; for a resumed run the sum over its parts.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.examples, self.tokens, self.seconds = 0, 0, 0.0
        self._batches = 0
        self._batch_start: float | None = None
        self._earlier_parts, self._start = 0.0, clock()

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

    def on_validation_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Stop the clock."""
        self._batch_start = None

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Batch, batch_idx: int
    ) -> None:
        """Start the clock if it is stopped. Else it runs since the end of the previous batch, so loading counts."""
        if self._batch_start is None:
            self._batch_start = self.clock()

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
    ) -> None:
        """Count the batch."""
        now = self.clock()
        self._batches += 1
        if self._batches > WARMUP_BATCHES and self._batch_start is not None:
            self.seconds += now - self._batch_start
            # All processes have equally many rows, give or take one.
            self.examples += len(batch.source) * trainer.world_size
            self.tokens += int(batch.target_mask.sum()) * trainer.world_size
        self._batch_start = now

    def state_dict(self) -> dict[str, Any]:
        """State for a resumed run."""
        return {"examples": self.examples, "tokens": self.tokens, "seconds": self.seconds, "elapsed": self.elapsed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state."""
        self.examples, self.tokens, self.seconds, self._earlier_parts = (
            state_dict[name] for name in ("examples", "tokens", "seconds", "elapsed")
        )
