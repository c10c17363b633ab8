"""Decode a few validation examples with their attention weights at each validation, to draw heat maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import lightning
import torch
from lightning.fabric.utilities import move_data_to_device
from lightning.pytorch.callbacks import Callback

from attnx.data.batches import collate
from attnx.data.dataset import Row
from attnx.data.examples import Pair


class HeatMaps(Callback):
    """Decodes the same examples at each validation, in the main process.

    Args:
        pairs: the examples.
        rows: the same, encoded.
        draw: called with the optimizer step and the decoded examples.
    """

    def __init__(self, pairs: Sequence[Pair], rows: Sequence[Row], draw: Callable[[int, list[Any]], None]) -> None:
        self.pairs, self.rows, self.draw = pairs, rows, draw

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Decode and draw."""
        if not trainer.is_global_zero or not self.pairs:
            return
        was_training = pl_module.training
        batch = move_data_to_device(collate(self.rows), pl_module.device)
        with torch.no_grad():
            decoded = pl_module.eval().predictor.decode_batch(self.pairs, batch, need_weights=True)  # type: ignore[union-attr,operator]
        pl_module.train(was_training)
        self.draw(trainer.global_step, decoded)
