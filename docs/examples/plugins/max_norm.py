"""The callback ``max_norm``."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch.callbacks import Callback

from attnx.registry import PositiveFloat, register


@register("callback", "max_norm")
class MaxNorm(Callback):
    """Rows of weight matrices are scaled down to a maximum norm after each step.

    Formula: ``w_i = w_i min(1, max_norm / |w_i|)``
    Source: Hinton et al. 2012, https://arxiv.org/abs/1207.0580
    """

    def __init__(self, max_norm: PositiveFloat = 3.0) -> None:
        self.max_norm = max_norm

    @torch.no_grad()
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Scale the rows of every matrix."""
        for weight in pl_module.parameters():
            if weight.dim() == 2:
                weight.copy_(torch.renorm(weight, p=2, dim=0, maxnorm=self.max_norm))
