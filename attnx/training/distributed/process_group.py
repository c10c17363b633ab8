"""The process group of a run: the rank of this process, collectives, and commands from the main process."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from attnx.files.atomic_files import write_text
from attnx.files.process import available_cores
from attnx.training.distributed.launched_rank import RankInfo

if TYPE_CHECKING:
    from attnx.training.callbacks.step_plan import StepPlan

T = TypeVar("T")
# The init method of ranks whose environment says where they meet.
ENVIRONMENT = "env://"
# The main process may draw or save while the others wait.
COLLECTIVE_TIMEOUT = timedelta(minutes=30)
# Files in the folder of messages: the run folder's path; a marker that the main process is finishing its loggers.
RUN_PATH_FILE, FINISHING_FILE = "run", "ending"


_rank_info = RankInfo()
# Numbers the groups of this process, as all ranks do: the store keeps what an earlier group has written.
_group_numbers = itertools.count()


def rank_info() -> RankInfo:
    """The rank of this process; rank 0 of 1 outside a process group."""
    return _rank_info


def is_main_process() -> bool:
    """Whether this process has rank 0, which writes the run folder, the screen and the loggers."""
    return _rank_info.rank == 0


@contextlib.contextmanager
def init_process_group(info: RankInfo) -> Iterator[None]:
    """Join the process group, and leave it at the end; after an error the next run of this process leaves it.

    Leaving it at the error could wait for a collective whose other ranks are dead.
    """
    if dist.is_initialized():
        dist.destroy_process_group()
    with _announced_rank(info):
        if info.backend == "nccl":
            torch.cuda.set_device(info.local_rank)
        elif "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(max(1, available_cores() // info.local_world_size))
        # Objects and flags travel between CPUs, whatever gradients do.
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if info.backend == "nccl" else info.backend,
            store=PrefixStore(str(next(_group_numbers)), _open_store(info)),
            rank=info.rank,
            world_size=info.world_size,
            timeout=COLLECTIVE_TIMEOUT,
        )
        any_rank(False)  # a rank that leaves at once, by a mistake, would end the connecting of the others
        yield
        dist.barrier()  # rank 0 may still draw; where it ends, all end
        dist.destroy_process_group()


@contextlib.contextmanager
def _announced_rank(info: RankInfo) -> Iterator[None]:
    """Tell the rank to this module, to Lightning and, as torchrun would, to the environment, until the context ends."""
    global _rank_info
    variables = {"RANK": str(info.rank), "WORLD_SIZE": str(info.world_size)}
    variables |= {"LOCAL_RANK": str(info.local_rank), "GROUP_RANK": str(info.node_rank)}
    if info.world_size == info.local_world_size and sys.platform == "linux":  # a single machine needs no host name
        variables["GLOO_SOCKET_IFNAME"] = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    lightning_rank = rank_zero_only.rank  # type: ignore[attr-defined]
    previous = {name: os.environ[name] for name in variables if name in os.environ}
    try:
        _rank_info = info
        rank_zero_only.rank = info.rank  # type: ignore[attr-defined]
        os.environ.update(variables)
        yield
    finally:
        _rank_info = RankInfo()
        rank_zero_only.rank = lightning_rank  # type: ignore[attr-defined]
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(previous)


@functools.cache
def _open_store(info: RankInfo) -> Store:
    """The store in which the ranks meet, opened once: an early rank could find the one of the group before."""
    init_method = info.init_method or f"file://{info.folder}/meeting"
    opened: Store = next(rendezvous(init_method, info.rank, info.world_size, timeout=COLLECTIVE_TIMEOUT))[0]
    return opened


def broadcast_from_main(make: Callable[[], T]) -> T:
    """Compute a value in the main process, and return it in all of them."""
    if _rank_info.world_size == 1:
        return make()
    values = [make() if is_main_process() else None]
    dist.broadcast_object_list(values)
    return values[0]  # type: ignore[return-value]


class RankCommand(NamedTuple):
    """A command that the main process sends to the other ranks, which then do the same as it."""

    plan: StepPlan | None = None  #: the steps to train and test by; None to measure the time of a step
    folder: str = ""  #: the run folder
    resume: bool = False  #: whether to start from its last checkpoint


def send_command(command: RankCommand) -> None:
    """Send a command from the main process to the other ranks."""
    if is_main_process():
        _exchange(command)


def receive_commands() -> Iterator[RankCommand]:
    """The commands to a rank other than 0, until it has trained."""
    command = RankCommand()
    while command.plan is None:
        command = _exchange(command)
        yield command


def _exchange(command: RankCommand) -> RankCommand:
    """The main process's command; the run folder's path is left for the launcher."""
    command = broadcast_from_main(lambda: command)
    if command.folder and _rank_info.folder and not _rank_info.local_rank:
        write_text(Path(_rank_info.folder, RUN_PATH_FILE), command.folder)
    return command


def mark_finishing() -> None:
    """Leave a marker for the launcher: the main process has begun to finish its loggers."""
    if _rank_info.folder:
        Path(_rank_info.folder, FINISHING_FILE).touch()


def all_reduce_sum(values: Tensor) -> Tensor:
    """Sum a tensor over all processes, in place."""
    if _rank_info.world_size > 1:
        dist.all_reduce(values)
    return values


def any_rank(value: bool) -> bool:
    """Whether a value is true in any process: all must do the same after the same step. No GPU takes part."""
    return bool(all_reduce_sum(torch.tensor(int(value))))


def gather_on_main(value: T) -> list[T]:
    """The values of all processes by rank, in the main process; an empty list in the others."""
    if _rank_info.world_size == 1:
        return [value]
    values: list[Any] | None = [None] * _rank_info.world_size if is_main_process() else None
    dist.gather_object(value, values)
    return values or []
