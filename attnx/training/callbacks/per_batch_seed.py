"""Gives every batch its own random numbers, so that a run which was interrupted draws what it would have drawn."""

from __future__ import annotations

from typing import Any

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback


class PerBatchSeed(Callback):
    """Start the random numbers of dropout and sampling anew at each batch, from the seed, the epoch and the batch.

    Where examples are judged they start anew too, from the seed and the step. Of several processes that train one model
    each draws its own; the first draws what one alone would.

    Args:
        seed: the run's.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Seed."""
        _seed(self.seed, trainer.current_epoch, batch_idx, trainer.global_rank)

    def on_validation_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Seed."""
        _seed(self.seed, trainer.global_step, trainer.global_rank)

    def on_test_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Seed."""
        _seed(self.seed, trainer.global_step, trainer.global_rank)


def _seed(*place: int) -> None:
    # Zeros at the end change nothing: they are what numpy fills up with.
    torch.manual_seed(int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0]))
