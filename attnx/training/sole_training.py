"""A run trains alone in its process, in a state of torch that is its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from attnx.errors import UserError
from attnx.files.process_state import isolated_state

_lock = threading.RLock()


@contextmanager
def sole_training() -> Iterator[None]:
    """Train in a block: it neither takes over what torch, numpy and Python keep for the process, nor changes it.

    Raises:
        UserError: another thread trains, and would draw from the same generators; or the caller is in autocast, whose
            copies of weights would outlive their training.
    """
    if any(map(torch.is_autocast_enabled, ("cpu", "cuda"))):
        raise UserError("a run is trained in the precision of trainer.precision; call fit outside torch.autocast")
    matmul_precision, allow_tf32 = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    if not _lock.acquire(blocking=False):
        raise UserError("another thread of this process trains a run; train each run in a process of its own")
    try:
        with isolated_state():
            yield
    finally:
        torch.set_float32_matmul_precision(matmul_precision)
        torch.backends.cudnn.allow_tf32 = allow_tf32
        _lock.release()
