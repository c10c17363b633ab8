"""Data worker processes: batches in shared memory; workers that end with their parent."""

from __future__ import annotations

import errno
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import synchronize
from typing import Any

from torch import Tensor

from attnx.data.batches import Batch
from attnx.data.dataset import Row
from attnx.errors import UserError, error_text
from attnx.files.parent_process import interrupt_with_parent

SEMAPHORES_PER_EVENT = 5
# Parts of the messages of PyTorch, multiprocessing and the system for full shared memory.
FULL_MEMORY_MESSAGES = ("shared memory", "unable to write to file </torch_", "Bus error")


def collate_shared(collate: Callable[[Sequence[Row]], Batch], rows: Sequence[Row]) -> Batch:
    """Collate a batch in shared memory.

    A tensor in a queue would be shared by the queue's thread, whose errors are lost; here they reach the main process.

    Raises:
        RuntimeError: shared memory is full.
    """
    batch = collate(rows)
    for tensor in batch:
        if isinstance(tensor, Tensor):
            tensor.share_memory_()  # type: ignore[no-untyped-call]
    return batch


def begin_worker(worker_id: int) -> None:
    """Let the system kill this worker when its parent dies; it has nothing to save."""
    parent: Any = multiprocessing.parent_process()
    interrupt_with_parent(parent.pid, signal.SIGKILL)


def refuse_full_memory(workers: int) -> None:
    """Check before anything is written that shared memory can be used.

    Raises:
        UserError: it cannot.
    """
    try:
        # The semaphores of a loader: of a queue to each worker, the queue of results, and the event that ends them.
        _ = [multiprocessing.Semaphore() for _ in range(workers and 3 * (workers + 1) + SEMAPHORES_PER_EVENT)]
    except OSError as error:
        raise UserError(
            f"trainer.num_workers={workers}: shared memory cannot be used (/dev/shm: {error.strerror}); "
            "free some of it, give a container more (docker run --shm-size), or set trainer.num_workers=0"
        ) from error


def is_out_of_shared_memory(error: BaseException) -> bool:
    """Whether an exception is about full shared memory, by its message or the place it was raised at."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        frames = traceback.extract_tb(error.__traceback__)
        return bool(frames) and frames[-1].filename == synchronize.__file__
    return isinstance(error, RuntimeError) and any(message in error_text(error) for message in FULL_MEMORY_MESSAGES)
