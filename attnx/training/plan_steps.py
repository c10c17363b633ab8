"""Plans the optimizer steps of a run; in a sweep a time becomes a number of steps once, for all jobs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from attnx.files.atomic_files import write_json
from attnx.registry.param_types import seconds
from attnx.runs.layout import STEP_TIME, STEP_TIME_LOCK
from attnx.runs.step_time import StepTime, read_step_time
from attnx.runs.sweep import sweep_of
from attnx.training import step_time
from attnx.training.callbacks.step_plan import Revision, StepPlan
from attnx.training.distributed import process_group
from attnx.training.train import PreparedRun, placement_of

WAITING = "waiting for the job of this sweep that measures how many steps fit into the time ..."


def plan_steps(prepared: PreparedRun, folder: Path, console: Console) -> StepPlan:
    """Plan the optimizer steps of a run.

    ``trainer.max_steps`` and ``trainer.max_epochs`` fix the number of steps. In a sweep a time fixes it, too, the same
    for all jobs, unless ``budget=time``. A single run, and a job with ``budget=time``, ends by its clock.

    Args:
        prepared: the run.
        folder: its folder.
        console: shows that the run waits for another one.
    """
    trainer = prepared.config["trainer"]
    time_allowed: float | None = None
    if trainer["max_steps"] is not None:
        steps = int(trainer["max_steps"])
    elif trainer["max_epochs"] is not None:
        steps = int(trainer["max_epochs"] * len(prepared.loaders.batches))
    else:
        time_allowed = seconds_allowed(prepared)
        sweep = sweep_of(folder) if prepared.config.get("budget", "steps") == "steps" else None
        per_step = _measure_once(sweep, prepared, folder, console) if sweep else measure_step(prepared)
        steps = step_time.steps_within(time_allowed, per_step)
        time_allowed = None if sweep else time_allowed
    return StepPlan([Revision(0, steps, trainer["num_validations"])], time_allowed)


def seconds_allowed(prepared: PreparedRun) -> float:
    """The seconds of ``trainer.max_time``."""
    allowed = seconds(prepared.config["trainer"]["max_time"])
    assert allowed is not None, "checked with the configuration"
    return allowed


def measure_step(prepared: PreparedRun) -> float:
    """The seconds of a training step; several processes measure together."""
    process_group.send_command(process_group.RankCommand())
    device, trainer = placement_of(prepared.config).get("decoder"), prepared.config["trainer"]
    return step_time.seconds_per_step(
        seconds_allowed(prepared), prepared.module, prepared.loaders, trainer, device, prepared.clock
    )


def _measure_once(sweep: Path, prepared: PreparedRun, folder: Path, console: Console) -> float:
    """The seconds of a step for all jobs of a sweep: the first job measures, the others wait."""
    with _lock(sweep / STEP_TIME_LOCK, lambda: console.print(WAITING)):
        step_seconds = read_step_time(sweep)
        if step_seconds is None:
            per_step = measure_step(prepared)
            max_time = prepared.config["trainer"]["max_time"]
            steps = step_time.steps_within(seconds_allowed(prepared), per_step)
            step_seconds = StepTime(per_step, int(folder.resolve().name), max_time, steps)
            write_json(sweep / STEP_TIME, step_seconds._asdict())
    return step_seconds.seconds_per_step


@contextlib.contextmanager
def _lock(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold a file lock, which the system releases if the process dies.

    Args:
        path: of the lock file.
        on_wait: called if another process holds it.
    """
    import fcntl  # which not every system has

    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # forked data workers have the file open, too
    finally:
        os.close(file)
