"""Processes that make batches beside the one that trains: they share memory with it, and end with it."""

from __future__ import annotations

import errno
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import synchronize
from pathlib import Path

from torch import Tensor

from attnx.data.batches import Batch
from attnx.data.dataset import Row
from attnx.errors import UserError
from attnx.training.distributed.parent_death import interrupt_with_parent

SHARED_MEMORY = Path("/dev/shm")
# The semaphores of an event.
EVENT = 5
# What PyTorch, multiprocessing and the system say of shared memory that is full.
SIGNS = ("shared memory", "unable to write to file </torch_", "Bus error")


@dataclass(frozen=True)
class SharedBatches:
    """Makes batches in shared memory; as ``collate_fn``, so that what goes wrong is raised where it is waited for.

    A tensor that is put into a queue would be shared by the queue's own thread, and what that raises nobody hears.

    Attributes:
        collate: makes a batch of rows.
    """

    collate: Callable[[Sequence[Row]], Batch]

    def __call__(self, rows: list[Row]) -> Batch:
        """Make a batch.

        Raises:
            RuntimeError: shared memory is full.
        """
        batch = self.collate(rows)
        for tensor in batch:
            if isinstance(tensor, Tensor):
                tensor.share_memory_()  # type: ignore[no-untyped-call]
        return batch


def begin_worker(number: int) -> None:
    """Have this process killed when the one that it works for is gone; it holds nothing that could be lost."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    assert parent.pid is not None
    interrupt_with_parent(parent.pid, signal.SIGKILL)


def refuse_full_memory(workers: int) -> None:
    """See, before anything is written, that workers could share any memory at all.

    Raises:
        UserError: they could not.
    """
    try:
        # As many as a loader makes: for the queue to each worker, the one from all, and the event that ends them.
        _ = [multiprocessing.Semaphore() for _ in range(workers and 3 * (workers + 1) + EVENT)]
    except OSError as error:
        raise UserError(
            f"trainer.num_workers={workers}: shared memory cannot be used ({SHARED_MEMORY}: {error.strerror}); "
            "free some "
            "of it, give a container more (docker run --shm-size), or set trainer.num_workers=0"
        ) from error


def out_of_shared_memory(error: BaseException) -> bool:
    """Whether that is what an exception says, or where it was raised if it is that something is full."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        frames = traceback.extract_tb(error.__traceback__)
        return bool(frames) and frames[-1].filename == synchronize.__file__
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)
