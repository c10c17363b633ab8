"""The forward and backward pass of a training step without Lightning's trainer, in the precision of a run."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from lightning.fabric.plugins.precision import DoublePrecision, MixedPrecision, Precision
from lightning.fabric.utilities import move_data_to_device
from torch import nn

from attnx.data.batches import Batch
from attnx.tasks.contract import token_loss
from attnx.training.lightning_module import TrainingModule


def precision_plugin(name: object, device: torch.device) -> Precision:
    """Lightning's plug-in of a ``trainer.precision``."""
    if name in ("bf16-mixed", "16-mixed"):
        return MixedPrecision(name, device.type)
    return DoublePrecision() if name == 64 else Precision()


def keep_random_state(device: torch.device) -> AbstractContextManager[None]:
    """Restore the random state of the CPU, and of a GPU that is used, afterwards; other GPUs are not looked at."""
    return torch.random.fork_rng([device] if device.type == "cuda" else [])


def compute_gradients(
    model: nn.Module, module: TrainingModule, batch: Batch, precision: Precision, device: torch.device
) -> None:
    """Add the gradients of a batch's mean loss to a model, with the loss of ``module``."""
    batch = precision.convert_input(move_data_to_device(batch, device))
    with precision.forward_context():
        loss = token_loss(model, batch, module.task.label_smoothing, module.scheduled_sampling)
    precision.backward((loss.total + loss.penalty) / loss.tokens.clamp(min=1), None)
