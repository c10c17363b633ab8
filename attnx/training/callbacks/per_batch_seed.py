"""Seeds the random numbers at each batch, so that a resumed run draws the same numbers as an uninterrupted one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from lightning import Callback, LightningModule, Trainer


class PerBatchSeed(Callback):
    """Seeds dropout and sampling at each training batch, from the run's seed, the epoch and the batch.

    A validation and the test are seeded from the run's seed and the step. Ranks draw different numbers; rank 0 draws
    those of a single process.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Seed for the batch."""
        _seed(self.seed, trainer.current_epoch, batch_idx, trainer.global_rank)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Seed for a validation, or for the test."""
        _seed(self.seed, trainer.global_step, trainer.global_rank)

    on_test_start = on_validation_start


def _seed(*entropy: int) -> None:
    # Trailing zeros, such as rank 0, change nothing: numpy pads with them.
    seed = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0])
    # Without an accelerator torch.manual_seed notes the call stack for each kind of them, for up to half a millisecond.
    seed_all = torch.manual_seed if torch.accelerator.is_available() else torch.default_generator.manual_seed
    seed_all(seed)
