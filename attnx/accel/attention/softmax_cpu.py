"""From scores to contexts without gradients, in C; of few queries torch's operations take more time than the work."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from attnx.accel import c_build
from attnx.accel.dispatch import open_to_c

SOURCE = Path(__file__).with_name("softmax_cpu.c")
FEW = 16
"""Queries of a row up to which C is faster."""
LEAST, ALONE = 2**17, 2**18
"""Terms of sums from which on C is faster, and up to which one thread is faster than several."""
POINTER, NUMBER = ctypes.c_void_p, ctypes.c_long
library = c_build.functions(
    SOURCE, takes={"masked_softmax": [*[POINTER] * 4, NUMBER], "weighted_sums": [*[POINTER] * 4, NUMBER]}
)
"""Finds what is in C; None without a compiler."""


def weighted_sums(weights: Tensor, values: Tensor) -> Tensor:
    """(..., q, m) weights and (..., m, v) values -> (..., q, v), the sums of the values by each query's weights."""
    if not (serves(weights) and _few(weights, values) and serves(values)):
        return weights @ values
    weights, values = weights.contiguous(), values if values.stride(-1) == 1 else values.contiguous()
    sums = weights.new_empty(*weights.shape[:2], values.shape[2])
    shape = (NUMBER * 6)(*weights.shape, values.shape[2], *values.stride()[:2])
    threads = torch.get_num_threads() if weights.numel() * values.shape[2] > ALONE else 1
    library().weighted_sums(shape, weights.data_ptr(), values.data_ptr(), sums.data_ptr(), threads)
    return sums


def softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """As :func:`attnx.ops.masked_softmax`, of (b, q, m) where C serves the scores, and what is allowed covers them."""
    scores, allowed = scores.contiguous(), allowed.expand(scores.shape)
    weights, shape = torch.empty_like(scores), (NUMBER * 6)(*scores.shape, *allowed.stride())
    threads = torch.get_num_threads() if scores.numel() > ALONE else 1
    library().masked_softmax(shape, scores.data_ptr(), allowed.data_ptr(), weights.data_ptr(), threads)
    return weights


def serves(tensor: Tensor) -> bool:
    """Whether C can be used: (b, q, m) on a CPU, in single precision, without gradients, with a C compiler.

    What traces, compiles or vectorizes a model follows torch's operations and nothing else.
    """
    return not torch.is_grad_enabled() and open_to_c(tensor) and tensor.dim() == 3 and library() is not None


def covers(allowed: Tensor, scores: Tensor) -> bool:
    """Whether what is allowed says so of each score and of no more."""
    known = allowed.dtype == torch.bool and allowed.device == scores.device and allowed.dim() == 3
    return known and all(mine in (1, theirs) for mine, theirs in zip(allowed.shape, scores.shape, strict=True))


def _few(weights: Tensor, values: Tensor) -> bool:
    alike = len(weights) == len(values) and weights.shape[-1] == values.shape[-2]
    terms = weights.numel() * values.shape[-1]
    return alike and weights.shape[1] <= FEW and terms > 0 and terms >= LEAST
