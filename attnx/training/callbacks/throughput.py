"""Counts examples and tokens a second of training, without validation and start-up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback

from attnx.data.batches import Batch

# Batches before the clock starts: the first ones pay for memory and compilation.
WARM = 3


class Throughput(Callback):
    """Measure whole training steps, loading included.

    Args:
        clock: tells seconds.

    Attributes:
        examples: rows since the clock started.
        tokens: target symbols, EOS included, or rows of numbers.
        seconds: time spent training on them.
        spent: time spent training in all, validations included, over all parts of a run that was resumed.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.examples, self.tokens, self.seconds = 0, 0, 0.0
        self._seen = 0
        self._mark: float | None = None
        self._before, self._began = 0.0, clock()

    @property
    def examples_per_second(self) -> float:
        """Examples a second; 0 before anything was measured."""
        return self.examples / self.seconds if self.seconds else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Target tokens a second; 0 before anything was measured."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def spent(self) -> float:
        """Seconds since training began, without the time that a run was left alone."""
        return self._before + self.clock() - self._began

    def on_validation_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Stop the clock."""
        self._mark = None

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Batch, batch_idx: int
    ) -> None:
        """Start the clock if it stands: normally it runs on from the end of the last batch, so loading counts."""
        if self._mark is None:
            self._mark = self.clock()

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
        self._seen += 1
        if self._seen > WARM and self._mark is not None:
            self.seconds += now - self._mark
            # Of several processes each has as many rows as the others, but for one at most.
            self.examples += len(batch.source) * trainer.world_size
            self.tokens += int(batch.target_present.sum()) * trainer.world_size
        self._mark = now

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run must know."""
        return {"examples": self.examples, "tokens": self.tokens, "seconds": self.seconds, "spent": self.spent}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self.examples, self.tokens, self.seconds, self._before = (
            state_dict[name] for name in ("examples", "tokens", "seconds", "spent")
        )
