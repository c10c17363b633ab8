"""How long the jobs of a sweep train: equally many steps, or equally long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attnx.errors import UserError
from attnx.files.process import available_cores
from attnx.runs.sweep import Sweep, read_step_time

MAX_TIME_KEY = "trainer.max_time"


def time_limits(configs: Iterable[Mapping[str, Any]], budget: str) -> list[str]:
    """The values of ``trainer.max_time`` of jobs that no number of steps or epochs ends, with a budget."""
    trainers = [config["trainer"] for config in configs if config["budget"] == budget]
    timed = [item for item in trainers if item.get("max_steps") is None and item.get("max_epochs") is None]
    return sorted({trainer["max_time"] for trainer in timed if trainer.get("max_time")})


def check_equal_time(configs: Iterable[Mapping[str, Any]], max_parallel: int, cluster: str) -> None:
    """Check that jobs which are compared at equal time have equal shares of this machine.

    Raises:
        UserError: more jobs run at a time than there are cores, or the launcher does not limit their number.
    """
    configs = [*configs]
    if not time_limits(configs, "time"):
        return
    cores = available_cores()
    if max_parallel > cores:
        raise UserError(
            f"budget=time needs a core for each job, and this machine has {cores} for -j {max_parallel}; "
            f"use -j {cores} or fewer"
        )
    if cluster == "local" and len(configs) > 1:
        raise UserError(
            "budget=time needs an equal share of the machine for each job, and hydra/launcher=slurm_here runs all "
            "jobs at once; use hydra/launcher=processes"
        )


def describe_length(sweep: Sweep, configs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Lines that say how long jobs with a time limit will train; printed before they start."""
    configs = [*configs]
    lines = [
        f"each job trains for {limit} by its own clock (budget=time), so numbers of steps will differ"
        for limit in time_limits(configs, "time")
    ]
    if limits := time_limits(configs, "steps"):
        plan = f"the first job measures how many steps fit into {' and '.join(limits)}; equal times are equal steps"
        lines.append(measured_steps(sweep) or plan)
    return lines


def measured_steps(sweep: Sweep) -> str:
    """How many steps fit into the jobs' time, as one of them measured; "" before that."""
    step_time = read_step_time(sweep.path)
    if step_time is None:
        return ""
    proportion = "; other times in proportion" if MAX_TIME_KEY in sweep.swept_keys else ""
    source = f"as job {step_time.job} measured"
    return f"{step_time.steps:,} steps a job: as many as fit into {step_time.max_time}, {source}{proportion}"
