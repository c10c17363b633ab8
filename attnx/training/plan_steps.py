"""Says how many steps a run takes. In a sweep a time becomes steps once, for all jobs, whoever starts them."""

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


def plan_steps(job: PreparedRun, folder: Path, console: Console) -> StepPlan:
    """Plan the optimizer steps of a run.

    ``trainer.max_steps`` and ``trainer.max_epochs`` are a number of steps. A time is one in a sweep, too, the same for
    all its jobs, unless ``budget=time``. A single run, and a job with ``budget=time``, goes by its clock.

    Args:
        job: the run, made ready.
        folder: its folder, which lies in that of its sweep.
        console: told if the run waits for another one.
    """
    trainer = job.config["trainer"]
    time_allowed: float | None = None
    if trainer["max_steps"] is not None:
        steps = int(trainer["max_steps"])
    elif trainer["max_epochs"] is not None:
        steps = int(trainer["max_epochs"] * len(job.loaders.batches))
    else:
        time_allowed = seconds_allowed(job)
        sweep = sweep_of(folder) if job.config.get("budget", "steps") == "steps" else None
        per_step = _measured_once(sweep, job, folder, console) if sweep else measure(job)
        steps = step_time.steps_within(time_allowed, per_step)
        time_allowed = None if sweep else time_allowed
    return StepPlan([Revision(0, steps, trainer["num_validations"])], time_allowed)


def seconds_allowed(job: PreparedRun) -> float:
    """How many seconds ``trainer.max_time`` is."""
    allowed = seconds(job.config["trainer"]["max_time"])
    assert allowed is not None, "checked with the configuration"
    return allowed


def measure(job: PreparedRun) -> float:
    """How many seconds a step takes; several processes measure together."""
    process_group.send_command(process_group.RankCommand())
    device, trainer = placement_of(job.config).get("decoder"), job.config["trainer"]
    return step_time.seconds_per_step(seconds_allowed(job), job.experiment, job.loaders, trainer, device, job.clock)


def _measured_once(sweep: Path, job: PreparedRun, folder: Path, console: Console) -> float:
    """The time of a step for all jobs of a sweep: the first job that asks measures, the others wait for it."""
    with _alone(sweep / STEP_TIME_LOCK, lambda: console.print(WAITING)):
        found = read_step_time(sweep)
        if found is None:
            per_step = measure(job)
            max_time = job.config["trainer"]["max_time"]
            steps = step_time.steps_within(seconds_allowed(job), per_step)
            found = StepTime(per_step, int(folder.resolve().name), max_time, steps)
            write_json(sweep / STEP_TIME, found._asdict())
    return found.seconds_per_step


@contextlib.contextmanager
def _alone(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock among processes, which the system takes from one that dies.

    Args:
        path: of the lock's file.
        waiting: called if another process holds it.
    """
    import fcntl  # which not every system has

    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # data workers that were forked meanwhile have the file open, too
    finally:
        os.close(file)
