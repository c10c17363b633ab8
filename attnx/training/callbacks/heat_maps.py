"""Decodes a few validation examples with their weights at each validation, for whoever draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import lightning
import torch
from lightning.fabric.utilities import move_data_to_device
from lightning.pytorch.callbacks import Callback

from attnx.data.batches import Row, collate
from attnx.data.examples import Pair


class HeatMaps(Callback):
    """Look at the same examples again and again; the first process alone.

    Args:
        pairs: the examples.
        rows: the same, as the model reads them.
        draw: gets the optimizer step and what was decoded.
    """

    def __init__(self, pairs: Sequence[Pair], rows: Sequence[Row], draw: Callable[[int, list[Any]], None]) -> None:
        self.pairs, self.rows, self.draw = pairs, rows, draw

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Decode and hand on."""
        if not trainer.is_global_zero or not self.pairs:
            return
        training = pl_module.training
        batch = move_data_to_device(collate(self.rows), pl_module.device)
        with torch.no_grad():
            decoded = pl_module.eval().decode(self.pairs, batch, need_weights=True)  # type: ignore[operator]
        pl_module.train(training)
        self.draw(trainer.global_step, decoded)
