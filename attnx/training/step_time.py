"""Measures the seconds of a training step, and how many steps fit into a time."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from lightning.fabric.utilities import move_data_to_device
from torch import nn

from attnx.data.batches import Batch
from attnx.tasks.contract import token_loss
from attnx.training.callbacks.time_budget import VALIDATION_SHARE
from attnx.training.distributed import process_group
from attnx.training.distributed.devices import training_device
from attnx.training.lightning_module import TrainingModule
from attnx.training.loaders import Loaders
from attnx.training.precision import precision_of, set_tf32

WARM_UP_STEPS = 3
# The shorter of these ends the measurement: seconds, and a share of the training time.
MAX_MEASURED_SECONDS, MAX_MEASURED_SHARE = 4.0, 0.05


def seconds_per_step(
    seconds: float,
    module: TrainingModule,
    loaders: Loaders,
    trainer: Mapping[str, Any],
    input_device: torch.device | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Measure the seconds of an optimizer step on a copy of the model, with the device and precision of the run.

    The random state is restored afterwards. Several processes measure together and exchange gradients; the clock of
    the main process decides.

    Args:
        seconds: of training.
        module: the model and how it is trained.
        loaders: of batches.
        trainer: the trainer's knobs.
        input_device: of batches, if the model's parts are already placed on several devices.
        clock: returns seconds.
    """
    device = input_device or training_device(trainer)
    model = copy.deepcopy(module.model)
    step = _step_function(model if input_device else model.to(device), module, trainer, device)
    limit = min(MAX_MEASURED_SECONDS, MAX_MEASURED_SHARE * seconds)
    with torch.random.fork_rng():
        for index, batch in enumerate(itertools.cycle(loaders.train_dataloader())):
            step(batch)
            if index + 1 == WARM_UP_STEPS:
                start = _synchronized_time(device, clock)
            elif index >= WARM_UP_STEPS:
                elapsed = _synchronized_time(device, clock) - start
                if process_group.broadcast_from_main(partial(bool, elapsed > limit)):
                    break
        per_batch = elapsed / (index + 1 - WARM_UP_STEPS)
    per_step: float = per_batch * trainer["accumulate_grad_batches"]
    return process_group.broadcast_from_main(lambda: per_step)


def steps_within(seconds: float, per_step: float) -> int:
    """The number of steps that fit into a time, of which a share is reserved for validations.

    >>> steps_within(100, 0.5)
    188
    """
    return max(1, int((1 - VALIDATION_SHARE) * seconds / per_step))


def _step_function(
    model: nn.Module, module: TrainingModule, trainer: Mapping[str, Any], device: torch.device
) -> Callable[[Batch], None]:
    """A function that takes one training step."""
    settings, clip = module.settings, trainer["gradient_clip_val"]
    precision = precision_of(trainer["precision"], device)
    set_tf32(trainer["precision"])
    model = precision.convert_module(model.train())
    optimizer = settings.optimizer(model.parameters())

    def step(batch: Batch) -> None:
        batch = precision.convert_input(move_data_to_device(batch, device))
        optimizer.zero_grad()
        with precision.forward_context():
            loss = token_loss(model, batch, module.task.smoothing, settings.sampling)
        precision.backward((loss.total + loss.penalty) / loss.tokens.clamp(min=1), None)
        if process_group.rank_info().world_size > 1:
            for weight in model.parameters():
                if weight.grad is not None:
                    process_group.all_reduce_sum(weight.grad)
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        precision.optimizer_step(optimizer)

    return step


def _synchronized_time(device: torch.device, clock: Callable[[], float]) -> float:
    """The seconds of the clock, after a GPU has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock()
