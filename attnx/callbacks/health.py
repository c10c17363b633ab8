"""Stops a run whose loss is no longer a number."""

from __future__ import annotations

from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback

from attnx.errors import UserError


class Health(Callback):
    """Raise as soon as a training loss is NaN or infinite, before the optimiser spreads it into the weights."""

    def on_before_backward(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, loss: Any) -> None:
        """Look at the loss."""
        if not torch.isfinite(loss):
            raise UserError(
                f"the loss became {float(loss.detach())} at step {trainer.global_step}; lower optimiser.lr, or set "
                "trainer.gradient_clip"
            )
