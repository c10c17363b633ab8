"""Gives every batch its own random numbers, so that a run which was interrupted draws what it would have drawn."""

from __future__ import annotations

from typing import Any

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback


class Draws(Callback):
    """Start the random numbers of dropout and sampling anew at each batch, from the seed, the epoch and the batch.

    Args:
        seed: the run's.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Seed."""
        place = np.random.SeedSequence((self.seed, trainer.current_epoch, batch_idx))
        torch.manual_seed(int(place.generate_state(1, np.uint64)[0]))
