"""Additive attention in C on a CPU, the kernel ``additive``."""

from __future__ import annotations

import ctypes
import functools

import torch
from torch import Tensor

from attnx.accel import c_build
from attnx.accel.attention.additive import blocks
from attnx.accel.attention.kernels import Kernel
from attnx.attention.attention import Attention
from attnx.attention.scorers.additive import Additive
from attnx.attention.types import AttentionInputs, AttentionOutput

MIN_TERMS_FOR_C, MAX_TERMS_FOR_ONE_THREAD = 2**12, 2**17
"""Terms from which on C is faster than torch, and up to which one thread is faster than several."""
Shape = ctypes.Array[ctypes.c_long]
"""Batch, queries, positions and width; strides of the batch and of rows, the queries' and the keys'."""


class CompiledAdditive(Kernel):
    """Additive attention on a CPU, its scores in C: memory grows with q * m and not with q * m * hidden.

    Formula: ``v . tanh(a + b) = v . (1 - 2 / (1 + e^(2a) e^(2b)))``, the exponentials once a query and once a position
    Source: Bahdanau et al. 2015, appendix A.1.2, https://arxiv.org/abs/1409.0473

    Where numbers are so large that the exponentials would not do, it takes tanh of each sum. Scores are computed once
    more for the gradients, and in float32 also for narrower types. The C file in this folder is compiled at the first
    use (:mod:`attnx.accel.c_build`); without a compiler other kernels serve.

    >>> from attnx import accel
    >>> from attnx.attention import build
    >>> attention = accel.enable(build(query_size=13, memory_size=26))
    >>> attention(torch.ones(2, 3, 13), attention.make_memory(torch.ones(2, 5, 26))).context.shape
    torch.Size([2, 3, 26])
    """

    name, device, source = "additive", "cpu", c_build.ADDITIVE
    scorers = (Additive,)
    supports_bias = supports_softcap = supports_recurrence = True

    def supports(self, attention: Attention, inputs: AttentionInputs) -> bool:
        """Whether the call is in single precision or less and not too small."""
        if inputs.prepared_queries.numel() * inputs.memory.keys.shape[-2] < MIN_TERMS_FOR_C:
            return False
        return blocks.can_compare(attention, inputs) and c_build.unsupported_platform() is None

    def build(self, device: torch.device) -> None:
        """Compile the C file; a RuntimeError if it does not compile."""
        if _library() is None:
            raise RuntimeError(c_build.compile_library(self.source).failure)

    def __call__(self, attention: Attention, inputs: AttentionInputs) -> AttentionOutput:
        """Attend, in blocks of queries if there are many."""
        return blocks.attend_in_blocks(attention, inputs, BACKEND)


_library = c_build.lazy_functions(
    c_build.ADDITIVE,
    takes={
        "additive_scratch": [ctypes.c_void_p],
        "additive_scores": [*[ctypes.c_void_p] * 6, ctypes.c_int],
        "additive_gradients": [*[ctypes.c_void_p] * 9, ctypes.c_int],
    },
    returns={"additive_scratch": ctypes.c_long},
)


def _scores_in_c(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """(b, q, d), (b, m, d) and (d) in float32 on the CPU -> (b, q, m)."""
    queries, keys, v = _in_rows(queries), _in_rows(keys), v.contiguous()
    shape, scratch, threads = _prepared(queries, keys)
    workspace, result = queries.new_empty(scratch), queries.new_empty(*queries.shape[:2], keys.shape[1])
    pointers = [tensor.data_ptr() for tensor in (queries, keys, v, result, workspace)]
    _library().additive_scores(shape, *pointers, threads)
    return result


def _gradients_in_c(queries: Tensor, keys: Tensor, v: Tensor, grad_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of queries, keys and v from those of the scores; the same bits with any number of threads."""
    queries, keys, v, grad_scores = _in_rows(queries), _in_rows(keys), v.contiguous(), grad_scores.contiguous()
    shape, scratch, threads = _prepared(queries, keys)
    workspace = queries.new_empty(scratch + len(queries) * len(v))
    result = queries.new_empty(queries.shape), keys.new_empty(keys.shape), v.new_empty(v.shape)
    pointers = [tensor.data_ptr() for tensor in (queries, keys, v, grad_scores, *result, workspace)]
    _library().additive_gradients(shape, *pointers, threads)
    return result


def _in_rows(operand: Tensor) -> Tensor:
    """The operand with contiguous rows."""
    return operand if operand.stride(-1) == 1 else operand.contiguous()


def _prepared(queries: Tensor, keys: Tensor) -> tuple[Shape, int, int]:
    """The shapes for the C functions, the floats of scratch space that they need, and the number of threads."""
    (rows, steps, width), positions = queries.shape, keys.shape[1]
    strides = queries.stride(0), queries.stride(1), keys.stride(0), keys.stride(1)
    shape, scratch = _shape((rows, steps, positions, width, *strides))
    threads = torch.get_num_threads() if rows * steps * positions * width > MAX_TERMS_FOR_ONE_THREAD else 1
    return shape, scratch, threads


@functools.lru_cache(maxsize=512)
def _shape(numbers: tuple[int, ...]) -> tuple[Shape, int]:
    shape = (ctypes.c_long * len(numbers))(*numbers)
    return shape, _library().additive_scratch(shape)


# A block is so small that a processor's cache holds it.
BACKEND = blocks.AdditiveBackend(_scores_in_c, _gradients_in_c, max_scores_to_keep=2**20, scores_per_block=2**18)
