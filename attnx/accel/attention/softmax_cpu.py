"""Masked softmax and weighted sums without gradients, in C: for few queries torch has more overhead than work."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from attnx.accel import c_build
from attnx.accel.dispatch import can_use_c

SOURCE = Path(__file__).with_name("softmax_cpu.c")
MAX_QUERIES_FOR_C = 16
"""Queries of a row up to which C is faster."""
MIN_TERMS_FOR_C, MAX_TERMS_FOR_ONE_THREAD = 2**17, 2**18
"""Terms of sums from which on C is faster, and up to which one thread is faster than several."""
POINTER, LONG = ctypes.c_void_p, ctypes.c_long
library = c_build.lazy_functions(
    SOURCE, takes={"masked_softmax": [*[POINTER] * 4, LONG], "weighted_sums": [*[POINTER] * 4, LONG]}
)
"""Load the C functions; None without a compiler."""


def weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """(..., q, m) weights and (..., m, v) values -> (..., q, v), the sums of the values by each query's weights."""
    if not (can_sum_in_c(weights) and _is_worth_c(weights, values) and can_sum_in_c(values)):
        return weights @ values
    weights, values = weights.contiguous(), values if values.stride(-1) == 1 else values.contiguous()
    sums = weights.new_empty(*weights.shape[:2], values.shape[2])
    shape = (LONG * 6)(*weights.shape, values.shape[2], *values.stride()[:2])
    threads = _threads(weights.numel() * values.shape[2])
    library().weighted_sums(shape, weights.data_ptr(), values.data_ptr(), sums.data_ptr(), threads)
    return sums


def masked_softmax_in_c(scores: Tensor, allowed_mask: Tensor) -> Tensor:
    """As :func:`attnx.ops.masked_softmax`, of supported scores (b, q, m) and a mask that matches them."""
    scores, allowed_mask = scores.contiguous(), allowed_mask.expand(scores.shape)
    weights, shape = torch.empty_like(scores), (LONG * 6)(*scores.shape, *allowed_mask.stride())
    library().masked_softmax(
        shape, scores.data_ptr(), allowed_mask.data_ptr(), weights.data_ptr(), _threads(scores.numel())
    )
    return weights


def can_sum_in_c(tensor: Tensor) -> bool:
    """Whether C can be used: (b, q, m) on a CPU, in single precision, without gradients, with a C compiler."""
    return not torch.is_grad_enabled() and can_use_c(tensor) and tensor.dim() == 3 and library() is not None


def mask_matches(allowed_mask: Tensor, scores: Tensor) -> bool:
    """Whether a mask is (b, q, m) bool, with 1 for axes that it does not distinguish."""
    is_mask = allowed_mask.dtype == torch.bool and allowed_mask.device == scores.device and allowed_mask.dim() == 3
    return is_mask and all(
        size in (1, expected) for size, expected in zip(allowed_mask.shape, scores.shape, strict=True)
    )


def _is_worth_c(weights: Tensor, values: Tensor) -> bool:
    shapes_match = len(weights) == len(values) and weights.shape[-1] == values.shape[-2]
    terms = weights.numel() * values.shape[-1]
    return shapes_match and weights.shape[1] <= MAX_QUERIES_FOR_C and terms > 0 and terms >= MIN_TERMS_FOR_C


def _threads(terms: int) -> int:
    return torch.get_num_threads() if terms > MAX_TERMS_FOR_ONE_THREAD else 1
