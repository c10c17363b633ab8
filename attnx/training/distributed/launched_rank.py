"""Ranks that another launcher started: torchrun, or what sets its variables, and srun; how torchrun's meet."""

from __future__ import annotations

import contextlib
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from attnx.errors import UserError

if TYPE_CHECKING:
    from torch._C._distributed_c10d import TCPStore

# What torchrun sets for each process, and MPI's wrappers too.
TORCH_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
# What srun sets for each task of a step.
SLURM_VARIABLES = (
    *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"),
    *("SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES", "SLURM_STEP_TASKS_PER_NODE"),
)
# Keys in the store of torchrun's agents, which outlives the ranks that they start.
PORT_KEY, RUN_FOLDER_KEY = "attnx/port", "attnx/run_folder"
# For the slowest rank to arrive; and to see that nothing answers at a port.
STORE_TIMEOUT, CONNECT_TIMEOUT = timedelta(minutes=5), timedelta(seconds=2)


class LaunchedRank(NamedTuple):
    """Rank of a process that another launcher started beside others, in torch's terms."""

    launcher: str  #: its name
    rank: int  #: among all processes
    world_size: int  #: number of processes
    local_rank: int  #: on its machine
    local_world_size: int  #: number of processes on its machine
    node_rank: int  #: of its machine


def launched_rank() -> LaunchedRank | None:
    """The rank of this process by its environment; None if it trains alone, or starts the other processes itself.

    Raises:
        UserError: the variables are not numbers, or machines have unlike numbers of processes.
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


def _torch_rank() -> LaunchedRank | None:
    """The rank of a process that torchrun started; None if it started no second one."""
    world_size = _number("WORLD_SIZE")
    if world_size == 1:
        return None
    local_world_size = _number("LOCAL_WORLD_SIZE") if "LOCAL_WORLD_SIZE" in os.environ else world_size
    node_rank = _number("GROUP_RANK") if "GROUP_RANK" in os.environ else 0
    launcher = "torchrun" if "TORCHELASTIC_RUN_ID" in os.environ else "WORLD_SIZE"
    if world_size % local_world_size:
        raise UserError(
            f"{launcher} started {world_size} processes, {local_world_size} of them on this machine; start equally "
            "many on each"
        )
    return LaunchedRank(launcher, _number("RANK"), world_size, _number("LOCAL_RANK"), local_world_size, node_rank)


def _slurm_rank() -> LaunchedRank | None:
    """The rank of a task, where a machine has several; one task a machine starts the processes itself."""
    tasks, nodes = _number("SLURM_STEP_NUM_TASKS"), _number("SLURM_STEP_NUM_NODES")
    # A shell that `srun --pty` started has a terminal as its input, as no other task has.
    if tasks <= nodes or (os.isatty(0) and os.environ.get("SLURM_TASK_PID") != str(os.getpid())):
        return None
    per_node = os.environ["SLURM_STEP_TASKS_PER_NODE"]
    equal_numbers = re.fullmatch(r"(\d+)(\(x\d+\))?", per_node)
    if equal_numbers is None:
        raise UserError(f"srun started {per_node} processes on {nodes} machines; start equally many on each")
    return LaunchedRank(
        "srun", _number("SLURM_PROCID"), tasks, _number("SLURM_LOCALID"), int(equal_numbers[1]), _number("SLURM_NODEID")
    )


def _number(variable: str) -> int:
    text = os.environ[variable]
    if not text.isdecimal():
        raise UserError(f"the environment variable {variable} is {text!r}; expected a whole number")
    return int(text)


def open_rank_store(rank: int) -> TCPStore | None:
    """A new store that rank 0 serves, for the ranks to meet in; None if torchrun did not start this process.

    The agents' store keeps the keys of ranks that were restarted, so a rank that meets others there may wait for a dead
    one (pytorch/pytorch#135712). ``TORCHELASTIC_RESTART_COUNT`` cannot set them apart, since every agent has its own.
    """
    agent_store = _open_agent_store()
    if agent_store is None:
        return None
    from torch.distributed import DistNetworkError

    if rank == 0:
        store = _open_store(0, is_master=True)
        agent_store.set(PORT_KEY, str(store.port))
        return store
    while True:
        with contextlib.suppress(DistNetworkError):  # nothing answers at the port of a rank 0 that has ended
            store = _open_store(int(agent_store.get(PORT_KEY)), timeout=CONNECT_TIMEOUT)
            store.set_timeout(STORE_TIMEOUT)
            return store


def record_begun_run(folder: Path) -> None:
    """Record the folder of a new run for the ranks after a restart."""
    if store := _open_agent_store():
        store.set(RUN_FOLDER_KEY, str(folder))


def find_begun_run() -> Path | None:
    """The folder of the run that this command began before torchrun restarted its ranks; else None."""
    store = _open_agent_store()
    return Path(store.get(RUN_FOLDER_KEY).decode()) if store and store.check([RUN_FOLDER_KEY]) else None


def _open_agent_store() -> TCPStore | None:
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    return _open_store(int(os.environ["MASTER_PORT"]))


def _open_store(port: int, is_master: bool = False, timeout: timedelta = STORE_TIMEOUT) -> TCPStore:
    # Late, for a command that checks its words before torch is imported; public, though mypy does not see it exported.
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    store: TCPStore = TCPStore(os.environ["MASTER_ADDR"], port, is_master=is_master, timeout=timeout)
    return store
