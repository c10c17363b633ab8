"""Rank of a process, and how it follows from the environment if another launcher started it: torchrun or srun."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from attnx.errors import UserError

# What torchrun sets for each process, and MPI's wrappers too.
TORCH_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
# What srun sets for each task of a step.
SLURM_VARIABLES = (
    *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"),
    *("SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES", "SLURM_STEP_TASKS_PER_NODE"),
)


class RankInfo(NamedTuple):
    """Rank of a process among those that train one model, in torch's terms."""

    rank: int = 0  #: among all processes; rank 0 writes
    world_size: int = 1  #: number of processes
    local_rank: int = 0  #: on its machine, which is also the index of its device
    local_world_size: int = 1  #: number of processes on its machine
    node_rank: int = 0  #: of its machine
    backend: str = "gloo"  #: ``gloo`` on CPUs, ``nccl`` on GPUs
    init_method: str = ""  #: where the processes meet; empty for the folder of messages
    folder: str = ""  #: where ranks of this machine leave messages for their launcher
    launcher: str = ""  #: the name of another program that started them; empty for attnx


def launched_rank() -> RankInfo | None:
    """The rank of this process by its environment; None if it trains alone, or starts the other processes itself.

    Raises:
        UserError: the variables are not numbers, machines have unlike numbers of processes, or torchrun would restart
            them.
    """
    if all(os.environ.get(name) for name in TORCH_VARIABLES):
        return _torch_rank()
    if all(os.environ.get(name) for name in SLURM_VARIABLES):
        return _slurm_rank()
    return None


def is_main_launch() -> bool:
    """Whether this process has rank 0, or no other launcher started it beside others."""
    launched = launched_rank()
    return launched is None or launched.rank == 0


def reject_launched_sweep() -> None:
    """Check that no other launcher started this process beside others.

    Raises:
        UserError: it did; a sweep starts processes itself.
    """
    if launched := launched_rank():
        raise UserError(
            f"{launched.launcher} started several processes, and a sweep starts its own; run it as one process, with "
            "trainer=ddp trainer.devices=N for jobs of N processes"
        )


def _torch_rank() -> RankInfo | None:
    """The rank of a process that torchrun started; None if it started no second one."""
    world_size = _number("WORLD_SIZE")
    if world_size == 1:
        return None
    local_world_size, node_rank = _number("LOCAL_WORLD_SIZE", str(world_size)), _number("GROUP_RANK", "0")
    launcher = "torchrun" if "TORCHELASTIC_RUN_ID" in os.environ else "WORLD_SIZE"
    if _number("TORCHELASTIC_MAX_RESTARTS", "0"):
        raise UserError(
            "torchrun --max-restarts would begin the run anew; leave it out, and continue with attnx resume"
        )
    if world_size % local_world_size:
        raise UserError(
            f"{launcher} started {world_size} processes, {local_world_size} of them on this machine; start equally "
            "many on each"
        )
    rank, local_rank = _number("RANK"), _number("LOCAL_RANK")
    return RankInfo(rank, world_size, local_rank, local_world_size, node_rank, launcher=launcher)


def _slurm_rank() -> RankInfo | None:
    """The rank of a task, where a machine has several; one task a machine starts the processes itself."""
    tasks, nodes = _number("SLURM_STEP_NUM_TASKS"), _number("SLURM_STEP_NUM_NODES")
    # A shell that `srun --pty` started has a terminal as its input, as no other task has.
    if tasks <= nodes or (os.isatty(0) and os.environ.get("SLURM_TASK_PID") != str(os.getpid())):
        return None
    per_node = os.environ["SLURM_STEP_TASKS_PER_NODE"]
    equal_numbers = re.fullmatch(r"(\d+)(\(x\d+\))?", per_node)
    if equal_numbers is None:
        raise UserError(f"srun started {per_node} processes on {nodes} machines; start equally many on each")
    rank, local_rank, node_rank = map(_number, ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"))
    return RankInfo(rank, tasks, local_rank, int(equal_numbers[1]), node_rank, launcher="srun")


def _number(variable: str, default: str = "") -> int:
    text = os.environ.get(variable, default)
    if not text.isdecimal():
        raise UserError(f"the environment variable {variable} is {text!r}; expected a whole number")
    return int(text)
