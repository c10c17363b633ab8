"""The code that the kernels of additive attention share: supported inputs, autograd and blocks of queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from attnx.accel.attention.checkpointed import attend_in_chunks
from attnx.attention.attention import Attention
from attnx.attention.scorers.additive import Additive
from attnx.attention.types import AttentionInputs, AttentionOutput
from attnx.ops import at_least_float32, has_autocast, is_tracing, product_dtype

SINGLE = (torch.float32, torch.bfloat16, torch.float16)
"""Types whose scores are computed in float32."""
MIN_QUERIES_PER_BLOCK = 8
"""Queries in a block, so that several share the exponentials of the keys."""


class AdditiveBackend(NamedTuple):
    """The scores and gradients of a kernel."""

    # queries (b, q, d), keys (b, m, d) and v (d), in float32 or float64 -> scores (b, q, m)
    scores: Callable[[Tensor, Tensor, Tensor], Tensor]
    # these operands and the gradients of the scores -> the gradients of queries, keys and v
    gradients: Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
    # up to so many, scores and weights are saved for the gradients; above, they are computed again
    max_scores_to_keep: int
    scores_per_block: int  # of those computed at a time


def can_compare(attention: Attention, inputs: AttentionInputs) -> bool:
    """Whether a kernel supports a call: plain tensors of one of the types on one device, with positions, not traced."""
    queries, keys = inputs.prepared_queries, inputs.memory.keys
    if not isinstance(attention.scorer, Additive) or type(queries) is not Tensor or type(keys) is not Tensor:
        return False
    v = attention.scorer.v
    rows_and_units = (len(queries), len(v))
    sizes = queries.dim() == keys.dim() == 3 and queries.shape[::2] == keys.shape[::2] == rows_and_units
    types = queries.dtype in SINGLE and queries.dtype == keys.dtype and (v.dtype == keys.dtype or has_autocast(keys))
    is_empty = not (queries.numel() and keys.numel())
    return sizes and types and not is_empty and queries.device == keys.device == v.device and not is_tracing()


def attend_in_blocks(attention: Attention, inputs: AttentionInputs, backend: AdditiveBackend) -> AttentionOutput:
    """Attend with the scores of a kernel; if they are many and not needed, a block of queries at a time.

    A block saves its contexts alone and is computed again for the gradients: memory grows with the number of queries
    plus that of positions. Any scope, normalizer and mask is supported; a recurrent normalizer has all queries at once.
    """
    positions = inputs.memory.keys.shape[1]
    v = cast("Additive", attention.scorer).v

    def attend(block: AttentionInputs) -> AttentionOutput:
        scores = additive_scores(backend, block.prepared_queries, block.memory.keys, v)
        return attention.attend_with_scores(block, scores)

    if (
        inputs.need_weights
        or inputs.history is not None
        or inputs.prepared_queries.shape[:2].numel() * positions <= backend.max_scores_to_keep
    ):
        return attend(inputs)
    return attend_in_chunks(attend, inputs, max(MIN_QUERIES_PER_BLOCK, backend.scores_per_block // positions))


def additive_scores(backend: AdditiveBackend, queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """(b, q, d), (b, m, d) and (d) -> (b, q, m), in the type of the definition's scores."""
    result = product_dtype(queries)
    if not queries.dtype == v.dtype == torch.float32:
        dtype = at_least_float32(queries.dtype)
        queries, keys, v = queries.to(dtype), keys.to(dtype), v.to(dtype)
    if torch.is_grad_enabled() and (queries.requires_grad or keys.requires_grad or v.requires_grad):
        scores: Tensor = _Scores.apply(backend, queries, keys, v)  # type: ignore[no-untyped-call]
    else:
        scores = backend.scores(queries, keys, v)
    return scores if scores.dtype == result else scores.to(result)


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, backend: AdditiveBackend, queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        ctx.backend = backend
        ctx.save_for_backward(queries, keys, v)
        return backend.scores(queries, keys, v)

    @staticmethod
    def backward(ctx: Any, grad_scores: Tensor) -> Any:
        if torch.is_grad_enabled():  # these gradients are to be differentiated: the definition's can be
            needed = ctx.needs_input_grad[1:]
            operands = [tensor for tensor, wants in zip(ctx.saved_tensors, needed, strict=True) if wants]
            queries, keys, v = ctx.saved_tensors
            scores = torch.tanh(queries[:, :, None] + keys[:, None]) @ v
            result = iter(torch.autograd.grad(scores, operands, grad_scores, create_graph=True))
            return None, *(next(result) if wants else None for wants in needed)
        return None, *ctx.backend.gradients(*ctx.saved_tensors, grad_scores)
