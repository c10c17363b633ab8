"""Plans the optimizer steps of a run; a time becomes steps by the measured time of a step, in a sweep once."""

from __future__ import annotations

import copy
from functools import partial
from itertools import chain, repeat
from pathlib import Path

import torch
from rich.console import Console
from torch import nn

from attnx.files.atomic_files import write_json
from attnx.files.file_lock import lock_while
from attnx.registry.option_types import seconds
from attnx.runs.layout import STEP_TIME, STEP_TIME_LOCK
from attnx.runs.sweep import StepTime, read_step_time, sweep_of
from attnx.training.callbacks.step_plan import VALIDATION_SHARE, Revision, StepPlan
from attnx.training.distributed import process_group
from attnx.training.distributed.devices import training_device
from attnx.training.lightning_module import compute_gradients, keep_random_state, precision_plugin
from attnx.training.train import PreparedRun
from attnx.training.trainer import set_tf32

MAX_STEPS = 2**63 - 1  # the largest number that a record holds
WAITING = "waiting for the job of this sweep that measures how many steps fit into the time ..."
WARM_UP_STEPS = 3
# The shorter of these ends the measurement: seconds, and a share of the training time.
MAX_MEASURED_SECONDS, MAX_MEASURED_SHARE = 4.0, 0.05


def plan_steps(prepared: PreparedRun, folder: Path, console: Console) -> StepPlan:
    """Plan the optimizer steps of a run.

    The first of ``trainer.max_steps`` and ``trainer.max_epochs`` fixes their number. Without both ``trainer.max_time``
    does so in a sweep, the same for all jobs, unless ``budget=time``. A single run, and a job with ``budget=time``,
    ends by its clock.
    """
    trainer = prepared.config["trainer"]
    time_allowed: float | None = None
    lengths = {"max_steps": 1, "max_epochs": len(prepared.loaders.batches)}
    ends = [int(trainer[end] * length) for end, length in lengths.items() if trainer[end] is not None]
    sweep = sweep_of(folder) if prepared.config.get("budget", "steps") == "steps" else None
    if ends:
        steps = min(ends)
    elif sweep:
        with lock_while(sweep / STEP_TIME_LOCK, lambda: console.print(WAITING)):
            step_time = read_step_time(sweep)
            if step_time is None:  # the first job measures for all
                per_step, job = measure_step(prepared), int(folder.resolve().name)
                step_time = StepTime(per_step, job, trainer["max_time"], steps_within(_seconds(prepared), per_step))
                write_json(sweep / STEP_TIME, step_time._asdict())
        steps = steps_within(_seconds(prepared), step_time.seconds_per_step)
    else:
        time_allowed = _seconds(prepared)
        steps = steps_within(time_allowed, measure_step(prepared))
    return StepPlan([Revision(0, min(steps, MAX_STEPS), trainer["num_validations"])], time_allowed)


def _seconds(prepared: PreparedRun) -> float:
    """The seconds of ``trainer.max_time``."""
    allowed = seconds(prepared.config["trainer"]["max_time"])
    assert allowed is not None, "checked with the configuration"
    return allowed


def steps_within(time_allowed: float, per_step: float) -> int:
    """The number of steps that fit into a time, of which a share is reserved for validations.

    >>> steps_within(100, 0.5)
    188
    """
    return max(1, int((1 - VALIDATION_SHARE) * time_allowed / per_step))


def measure_step(prepared: PreparedRun) -> float:
    """Measure the seconds of an optimizer step on a copy of the model, with the device and precision of the run.

    The random state is restored afterwards. Several processes measure together and exchange gradients; the clock of
    the main process decides.
    """
    process_group.send_command(process_group.RankCommand())
    trainer, module, devices = prepared.config["trainer"], prepared.module, prepared.devices
    device = devices["decoder"] if devices else training_device(trainer)
    clip, precision = trainer["gradient_clip_val"], precision_plugin(trainer["precision"], device)
    set_tf32(trainer["precision"])
    model = copy.deepcopy(module.model)
    model = precision.convert_module((model if devices else model.to(device)).train())
    optimizer = module.build_optimizer(parameters=model.parameters())
    limit = min(MAX_MEASURED_SECONDS, MAX_MEASURED_SHARE * _seconds(prepared))
    with keep_random_state(device):
        for index, batch in enumerate(chain.from_iterable(repeat(prepared.loaders.train_dataloader()))):
            optimizer.zero_grad()
            compute_gradients(model, module, batch, precision, device)
            for weight in model.parameters():
                if weight.grad is not None:
                    process_group.all_reduce_sum(weight.grad)
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            precision.optimizer_step(optimizer)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            if index + 1 == WARM_UP_STEPS:
                start = prepared.clock()
            elif index >= WARM_UP_STEPS:
                elapsed = prepared.clock() - start
                if process_group.broadcast_from_main(partial(bool, elapsed > limit)):
                    break
    per_step: float = elapsed / (index + 1 - WARM_UP_STEPS) * trainer["accumulate_grad_batches"]
    return process_group.broadcast_from_main(lambda: per_step)
