"""Which of the processes that train one model this is, and what they tell each other."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from lightning.pytorch.utilities import rank_zero_only
from lightning_utilities.core.rank_zero import rank_zero_only as utilities
from torch import Tensor

from attnx.training.callbacks.step_plan import StepPlan

T = TypeVar("T")
# That all of them wait for one, which may draw or save meanwhile.
PATIENCE = timedelta(minutes=30)
# Where a process leaves what the one that started it is to know: a variable of the environment, and files in it.
FOLDER, RUN, ENDING = "ATTNX_RANKS", "run", "ending"


class RankInfo(NamedTuple):
    """The place of a process among those that train one model.

    Attributes:
        rank: its number among all; the first one writes.
        world: how many there are.
        local: its number on its machine, which is also that of its device.
        beside: how many are on its machine.
        node: the number of its machine.
        backend: by what they talk: ``gloo`` on CPUs, ``nccl`` on GPUs.
        meeting: where they meet, as torch's ``init_method``.
    """

    rank: int = 0
    world: int = 1
    local: int = 0
    beside: int = 1
    node: int = 0
    backend: str = "gloo"
    meeting: str = ""


_here = RankInfo()


def here() -> RankInfo:
    """The place of this process; that of one alone, if it is."""
    return _here


def first() -> bool:
    """Whether this process is the one that writes the run folder, the screen and the loggers."""
    return _here.rank == 0


@contextlib.contextmanager
def joined(place: RankInfo) -> Iterator[None]:
    """Meet the others, and part from them."""
    global _here
    _here = place
    for name, value in _variables(place).items():
        os.environ[name] = str(value)
    for one in (rank_zero_only, utilities):
        setattr(one, "rank", place.rank)  # noqa: B010  # as Lightning does
    if place.backend == "nccl":
        torch.cuda.set_device(place.local)
    elif "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, _cores() // place.beside))
    # Objects and flags go between CPUs, whatever gradients do.
    backend = "cpu:gloo,cuda:nccl" if place.backend == "nccl" else place.backend
    dist.init_process_group(
        backend, init_method=place.meeting, rank=place.rank, world_size=place.world, timeout=PATIENCE
    )
    yield
    dist.barrier()  # the first one may draw; where it ends, all do
    dist.destroy_process_group()


def _variables(place: RankInfo) -> dict[str, Any]:
    """What Lightning asks the environment, as torchrun would have set it."""
    named: dict[str, Any] = {
        "RANK": place.rank,
        "WORLD_SIZE": place.world,
        "LOCAL_RANK": place.local,
        "GROUP_RANK": place.node,
    }
    if place.world == place.beside and sys.platform == "linux":  # a machine alone need not know its name
        named["GLOO_SOCKET_IFNAME"] = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    return named


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def told(make: Callable[[], T]) -> T:
    """What the first process makes, as all of them know it."""
    if _here.world == 1:
        return make()
    held = [make() if first() else None]
    dist.broadcast_object_list(held)
    return held[0]  # type: ignore[return-value]


class RankCommand(NamedTuple):
    """What the first process has the others do with it.

    Attributes:
        plan: of the steps to train and test by; None to measure how long steps take.
        folder: the run's.
        resume: whether from its last checkpoint.
    """

    plan: StepPlan | None = None
    folder: str = ""
    resume: bool = False


def lead(order: RankCommand) -> None:
    """Have the others follow; and who started the processes is told where the run lies."""
    if _here.world > 1 and first():
        _note(told(lambda: order))


def orders() -> Iterator[RankCommand]:
    """What a process is to do that is not the first one, until it has trained."""
    while True:
        order = told(_nothing)
        _note(order)
        yield order
        if order.plan is not None:
            return


def _note(order: RankCommand) -> None:
    if order.folder and not _here.local:
        Path(os.environ[FOLDER], RUN).write_text(order.folder, encoding="utf-8")


def note_end() -> None:
    """Let who started the processes know that the first one has begun to tell its loggers how the run ended."""
    if _here.world > 1:
        Path(os.environ[FOLDER], ENDING).touch()


def _nothing() -> RankCommand:
    raise RuntimeError("the first process gives the orders")


def summed(numbers: Tensor) -> Tensor:
    """The sum over all processes, in the place of this one's."""
    if _here.world > 1:
        dist.all_reduce(numbers)
    return numbers


def gathered(mine: T) -> list[T]:
    """What each process has, by their numbers, in the first one; in the others nothing."""
    if _here.world == 1:
        return [mine]
    held: list[Any] | None = [None] * _here.world if first() else None
    dist.gather_object(mine, held)
    return held or []
