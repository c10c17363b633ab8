"""What torch, numpy and Python keep for a process or a thread: default dtype, modes of gradients, random generators."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def isolated_state(dtype: torch.dtype = torch.float32) -> Iterator[None]:
    """Have a default dtype and gradients in a block, whatever the caller has; all is as before afterwards.

    The block draws random numbers without moving the caller's generators.
    """
    python_state, numpy_state = random.getstate(), np.random.get_state()
    is_cuda_used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = range(torch.cuda.device_count()) if is_cuda_used else ()
    try:
        with default_dtype(dtype), torch.random.fork_rng(devices), torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        if not is_cuda_used and torch.cuda.is_available():  # its generators would have begun with the seed of the CPU's
            torch.cuda.manual_seed_all(torch.initial_seed())


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Set the dtype of new tensors in a block."""
    previous = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(previous)
