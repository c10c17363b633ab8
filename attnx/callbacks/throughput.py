"""Counts words and tokens a second of training, without validation and start-up."""

from __future__ import annotations

import time
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback

from attnx.data.batches import Batch

# Batches before the clock starts: the first ones pay for memory and compilation.
WARM = 3


class Throughput(Callback):
    """Measure whole training steps, loading included.

    Attributes:
        words: examples since the clock started.
        tokens: target symbols, EOS included, or rows of numbers.
        seconds: time spent training on them.
    """

    def __init__(self) -> None:
        self.words, self.tokens, self.seconds = 0, 0, 0.0
        self._seen = 0
        self._mark: float | None = None

    @property
    def words_per_second(self) -> float:
        """Words a second; 0 before anything was measured."""
        return self.words / self.seconds if self.seconds else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Target tokens a second; 0 before anything was measured."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def on_validation_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Stop the clock."""
        self._mark = None

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Batch, batch_idx: int
    ) -> None:
        """Start the clock if it stands: normally it runs on from the end of the last batch, so loading counts."""
        if self._mark is None:
            self._mark = time.perf_counter()

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
    ) -> None:
        """Count the batch."""
        now = time.perf_counter()
        self._seen += 1
        if self._seen > WARM and self._mark is not None:
            self.seconds += now - self._mark
            self.words += len(batch.source)
            self.tokens += int(batch.target_present.sum())
        self._mark = now
