"""How long a training step takes, and how many fit into a time."""

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
from attnx.tasks.protocols import token_loss
from attnx.training.callbacks.time_budget import VALIDATION_SHARE
from attnx.training.distributed import process_group
from attnx.training.distributed.devices import training_device
from attnx.training.lightning_module import TrainingModule
from attnx.training.loaders import Loaders
from attnx.training.precision import precision_of, round_factors

# Steps before the clock starts; seconds, and the share of the time to be trained, that are measured at most.
WARM, SECONDS, SHARE = 3, 4.0, 0.05


def seconds_per_step(
    seconds: float,
    experiment: TrainingModule,
    loaders: Loaders,
    trainer: Mapping[str, Any],
    placed: torch.device | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Measure how long an optimizer step takes, on a copy of the model.

    Measured is what will be done: on the device and in the precision of the run. The copy is thrown away and the random
    state put back, so that measuring changes nothing but the number. Several processes measure together, gradients
    exchanged, and the first one's clock decides.

    Args:
        seconds: that are to be trained.
        experiment: what is to be trained.
        loaders: of its batches.
        trainer: the trainer's knobs.
        placed: where batches go, if the model's parts are on devices of their own already.
        clock: tells seconds.
    """
    device = placed or training_device(trainer)
    trial = copy.deepcopy(experiment.model)
    step = _stepping(trial if placed else trial.to(device), experiment, trainer, device)
    with torch.random.fork_rng():
        taken, started = 0, _now(device, clock)
        for number, batch in enumerate(itertools.cycle(loaders.train_dataloader())):
            step(batch)
            if number + 1 == WARM:
                started = _now(device, clock)
            elif number >= WARM:
                taken += 1
                spent = _now(device, clock) - started
                if process_group.broadcast_from_main(partial(bool, spent > min(SECONDS, SHARE * seconds))):
                    break
        per_step: float = (_now(device, clock) - started) / taken * trainer["accumulate_grad_batches"]
    return process_group.broadcast_from_main(lambda: per_step)


def steps_within(seconds: float, per_step: float) -> int:
    """How many steps fit into a time, some of which is left for validations.

    >>> steps_within(100, 0.5)
    188
    """
    return max(1, int((1 - VALIDATION_SHARE) * seconds / per_step))


def _stepping(
    model: nn.Module, experiment: TrainingModule, trainer: Mapping[str, Any], device: torch.device
) -> Callable[[Batch], None]:
    """What takes one step of training."""
    settings, clip = experiment.settings, trainer["gradient_clip_val"]
    precision = precision_of(trainer["precision"], device)
    round_factors(trainer["precision"])
    model = precision.convert_module(model.train())
    optimizer = settings.optimizer(model.parameters())

    def step(batch: Batch) -> None:
        batch = precision.convert_input(move_data_to_device(batch, device))
        optimizer.zero_grad()
        with precision.forward_context():
            loss = token_loss(model, batch, experiment.task.smoothing, settings.sampling)
        precision.backward((loss.total + loss.penalty) / loss.tokens.clamp(min=1), None)
        if process_group.rank_info().world_size > 1:
            for weight in model.parameters():
                if weight.grad is not None:
                    process_group.all_reduce_sum(weight.grad)
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        precision.optimizer_step(optimizer)

    return step


def _now(device: torch.device, clock: Callable[[], float]) -> float:
    """Seconds, of a GPU once it has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock()
