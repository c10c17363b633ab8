"""Says how long the jobs of a sweep train: as many steps each, or as long each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attnx.errors import UserError
from attnx.runs.step_time import read_step_time
from attnx.runs.sweep import Sweep
from attnx.sweeps.session import cores

MAX_TIME = "trainer.max_time"


def times(configs: Iterable[Mapping[str, Any]], budget: str) -> list[str]:
    """The times of the jobs that a time ends, and whose budget is in steps, or in time."""
    trainers = [config["trainer"] for config in configs if config["budget"] == budget]
    ended_by_time = (one for one in trainers if one.get("max_steps") is None and one.get("max_epochs") is None)
    return sorted({one["max_time"] for one in ended_by_time if one.get("max_time")})


def refuse_crowded(configs: Iterable[Mapping[str, Any]], side_by_side: int, cluster: str) -> None:
    """See that jobs which are compared at equal time have equal shares of this machine.

    Args:
        configs: of the jobs.
        side_by_side: how many run at a time.
        cluster: what the launcher sends jobs to, of one that does.

    Raises:
        UserError: there are more jobs at a time than cores, or nobody says how many.
    """
    configs = [*configs]
    if not times(configs, "time"):
        return
    if side_by_side > cores():
        raise UserError(
            f"budget=time gives each job a core or more, and this machine has {cores()} for -j {side_by_side}; "
            f"use -j {cores()} or fewer"
        )
    if cluster == "local" and len(configs) > 1:
        raise UserError(
            "budget=time gives each job a share of the machine, and hydra/launcher=slurm_here runs all jobs at once; "
            "use hydra/launcher=processes"
        )


def planned(sweep: Sweep, configs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Lines that say, before the jobs begin, how long they will train; none where that is no time.

    Args:
        sweep: the sweep.
        configs: of the jobs.
    """
    configs = [*configs]
    lines = [
        f"each job trains for {time} by its own clock (budget=time), so numbers of steps will differ"
        for time in times(configs, "time")
    ]
    if in_steps := times(configs, "steps"):
        first = f"the first job measures how many steps fit into {' and '.join(in_steps)}; equal times are equal steps"
        lines.append(measured(sweep) or first)
    return lines


def measured(sweep: Sweep) -> str:
    """How many steps the jobs' time was found to be; "" before it was measured."""
    found = read_step_time(sweep.path)
    if found is None:
        return ""
    others = "; other times in proportion" if MAX_TIME in sweep.swept_keys else ""
    return f"{found.steps:,} steps a job: as many as fit into {found.max_time}, as job {found.job} measured{others}"
