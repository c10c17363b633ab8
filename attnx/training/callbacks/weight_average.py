"""A moving average of the weights, which is validated and tested in their place."""

from __future__ import annotations

from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor


class WeightAverage(Callback):
    """Validates and tests a moving average of the weights; training goes on from the weights themselves.

    Formula: ``a_t = d_t a_{t-1} + (1 - d_t) w_t, d_t = min(decay, (1 + t) / (10 + t))`` after optimizer step t
    Source: Polyak and Juditsky 1992, https://doi.org/10.1137/0330046; exponential, with this warm-up,
        https://www.tensorflow.org/api_docs/python/tf/train/ExponentialMovingAverage

    Lightning's own callback also averages a copy of the data that the module refers to, and its average of a short
    run is mostly the weights of the first step.
    """

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.steps, self.average = 0, dict[str, Tensor]()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin with the weights that training begins with; a resumed run has its average already."""
        self.average = {
            name: self.average.get(name, weight).detach().clone().to(weight.device)
            for name, weight in pl_module.get_submodule("model").named_parameters()
        }

    @torch.no_grad()
    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Move the average towards the weights, unless gradients are still accumulated."""
        if trainer.global_step == self.steps:
            return
        self.steps = trainer.global_step
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        for name, weight in pl_module.get_submodule("model").named_parameters():
            self.average[name].lerp_(weight, 1 - decay)

    @torch.no_grad()
    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Swap the weights and their average."""
        for name, weight in pl_module.get_submodule("model").named_parameters():
            kept = weight.clone()
            weight.copy_(self.average[name])
            self.average[name] = kept

    on_validation_end = on_validation_start

    def state_dict(self) -> dict[str, Any]:
        """State for a resumed run."""
        return {"steps": self.steps, "average": self.average}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state."""
        self.steps, self.average = state_dict["steps"], state_dict["average"]
