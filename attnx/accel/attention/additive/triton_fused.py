"""Triton kernel of additive attention with softmax: scores, weights and contexts in one pass over the memory.

Never run on a GPU yet: compiled for three generations, and tested in Triton's interpreter.

Softmax's largest score and sum are corrected as tiles of positions arrive, and with them the context, so that neither
scores nor weights are in memory (Milakov and Gimelshein 2018, https://arxiv.org/abs/1805.02867; Dao et al. 2022,
https://arxiv.org/abs/2205.14135). The logarithm of each sum is saved: a weight is ``e^(score - log_sum)``. Gradients
compute scores and weights again for a block of queries, since a pass that computed them tile by tile would evaluate
tanh four times a pair and not three times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attnx.accel.attention.additive.triton_jit import classify_sizes, jit, tl, triton, tuned
from attnx.accel.attention.additive.triton_kernels import (
    BACKEND,
    can_use_powers,
    locate_tile,
    prepare_operand,
    tile_scores,
)
from attnx.ops import masked_softmax

MIN_VALUE_WIDTH = 16
"""Least width of a tile of values in a product."""
ATTENTION_TILES = (16, 32, 4), (16, 32, 8), (32, 32, 8), (16, 64, 8)
"""Queries, positions and warps of a program; none of them spills a register with values of 512 numbers."""
MAX_SCORES_FOR_GRADIENTS = 2**24
"""Scores that the gradients hold in memory at a time."""


def attend_online(
    queries: Tensor, keys: Tensor, v: Tensor, values: Tensor, allowed_mask: Tensor, temperature: float
) -> Tensor:
    """Contexts (b, q, w) by softmax of additive scores; zeros, with zero gradients, where nothing is allowed.

    Args:
        queries: (b, q, d) in float32, as are the other operands.
        keys: (b, m, d).
        v: (d).
        values: (b, m, w).
        allowed_mask: (b, q, m) bool, of any strides.
        temperature: of softmax.
    """
    contexts: Tensor = _Attention.apply(queries, keys, v, values, allowed_mask, temperature)  # type: ignore[no-untyped-call]
    return contexts


def compile_kernel(device: torch.device) -> None:
    """Compile the kernel for a device, and launch it there on tensors of one element.

    Raises:
        Exception: whatever Triton, its compilers or CUDA raise.
    """
    unit = torch.ones(1, 1, 1, device=device)
    _forward(unit, unit, unit.flatten(), unit, unit.bool(), 1.0)
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, keys: Tensor, v: Tensor, values: Tensor, allowed_mask: Tensor, temperature: float
    ) -> Tensor:
        contexts, log_sums = _forward(queries, keys, v, values, allowed_mask, temperature)
        ctx.save_for_backward(queries, keys, v, values, allowed_mask, contexts, log_sums)
        ctx.temperature = temperature
        return contexts

    @staticmethod
    def backward(ctx: Any, grad_contexts: Tensor) -> Any:
        if not torch.is_grad_enabled():
            with torch.autocast(grad_contexts.device.type, enabled=False):
                return *_gradients(ctx.saved_tensors, ctx.temperature, grad_contexts), None, None
        # These gradients are to be differentiated: the definition's can be.
        queries, keys, v, values, allowed_mask, *_ = ctx.saved_tensors
        scores = torch.tanh(queries[:, :, None] + keys[:, None]) @ v
        contexts = masked_softmax(scores / ctx.temperature, allowed_mask) @ values
        needed = [
            tensor for tensor, needs in zip(ctx.saved_tensors[:4], ctx.needs_input_grad[:4], strict=True) if needs
        ]
        result = iter(torch.autograd.grad(contexts, needed, grad_contexts, create_graph=True))
        return *(next(result) if needs else None for needs in ctx.needs_input_grad[:4]), None, None


def _forward(
    queries: Tensor, keys: Tensor, v: Tensor, values: Tensor, allowed_mask: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """The contexts, and the logarithms (b, q) of softmax's sums, inf where nothing is allowed."""
    (batch, steps, width), (_, positions, value_width) = queries.shape, values.shape
    contexts, log_sums = values.new_empty(batch, steps, value_width), values.new_empty(batch, steps)
    sizes = steps, positions, width, value_width

    def grid(tile: dict[str, int]) -> tuple[int]:
        return (batch * triton.cdiv(steps, tile["high"]),)

    with torch.cuda.device_of(queries):  # type: ignore[no-untyped-call]
        _attention_kernel[grid](
            prepare_operand(queries, True), prepare_operand(keys, True), v.contiguous(), values.contiguous(),
            allowed_mask.view(torch.uint8), contexts, log_sums, *sizes, *allowed_mask.stride(), 1 / temperature,
            classify_sizes(batch, *sizes), max(MIN_VALUE_WIDTH, triton.next_power_of_2(value_width)),
        )  # fmt: skip
    return contexts, log_sums


def _gradients(saved: Sequence[Tensor], temperature: float, grad_contexts: Tensor) -> tuple[Tensor, ...]:
    """The gradients of queries, keys, v and values, from the scores of a block of queries at a time."""
    queries, keys, v, values, allowed_mask, contexts, log_sums = saved
    queries_per_block = max(1, MAX_SCORES_FOR_GRADIENTS // allowed_mask[:, 0].numel())
    grad_queries, grad_keys, grad_v, grad_values = (torch.zeros_like(part) for part in (queries, keys, v, values))
    by_query = queries, allowed_mask, log_sums[..., None], contexts, grad_contexts, grad_queries
    blocks = (torch.split(part, queries_per_block, 1) for part in by_query)
    for block, block_mask, log_sum, context, grad_context, grad_block in zip(*blocks, strict=True):
        scores = BACKEND.scores(block, keys, v) / temperature
        weights = torch.where(block_mask, torch.exp(scores - log_sum), 0.0)
        grad_weights = grad_context @ values.mT - (grad_context * context).sum(-1, keepdim=True)
        grad_values += weights.mT @ grad_context
        grads = BACKEND.gradients(block, keys, v, weights * grad_weights / temperature)
        for total, grad in zip((grad_block, grad_keys, grad_v), grads, strict=True):
            total += grad
    return grad_queries, grad_keys, grad_v, grad_values


@jit
def _add_tile(scores: tl.tensor, peak: tl.tensor, total: tl.tensor) -> tuple[tl.tensor, ...]:
    """Weights of a tile relative to the largest score so far, by how much earlier ones shrink, largest score, sum."""
    highest = tl.maximum(peak, tl.max(scores, 1))
    shift = tl.where(highest == float("-inf"), 0.0, highest)  # nothing was allowed yet
    weights = tl.exp(scores - shift[:, None])
    shrinkage = tl.exp(peak - shift)
    return weights, shrinkage, highest, total * shrinkage + tl.sum(weights, 1)


@tuned(*ATTENTION_TILES)
def _attention_kernel(
    queries: tl.tensor,
    keys: tl.tensor,
    v: tl.tensor,
    values: tl.tensor,
    allowed_mask: tl.tensor,
    contexts: tl.tensor,
    log_sums: tl.tensor,
    steps: tl.tensor,
    positions: tl.tensor,
    width: tl.tensor,
    value_width: tl.tensor,
    mask_batch_stride: tl.tensor,
    mask_step_stride: tl.tensor,
    mask_position_stride: tl.tensor,
    scale: tl.tensor,
    size_class: tl.tensor,  # for the choice of a tile alone
    value_wide: tl.constexpr,
    high: tl.constexpr,
    wide: tl.constexpr,
) -> None:
    batch, step = locate_tile(steps, high)
    step = step.to(tl.int64)
    column = tl.arange(0, value_wide)[None, :]
    queries += batch * steps * (2 * width + 1)
    keys += batch * positions * (2 * width + 1)
    has_powers = can_use_powers(queries + 2 * width * steps, 1, steps, keys + 2 * width * positions, 1, positions)
    allowed_mask += batch * mask_batch_stride + step[:, None] * mask_step_stride
    peak = tl.full((high,), float("-inf"), tl.float32)
    total = tl.zeros((high,), tl.float32)
    context = tl.zeros((high, value_wide), tl.float32)
    for start in range(0, positions, wide):
        position = start + tl.arange(0, wide)
        inside = (step < steps)[:, None] & (position < positions)[None, :]
        is_allowed = tl.load(allowed_mask + position[None, :] * mask_position_stride, inside, 0) != 0
        if tl.max(is_allowed.to(tl.int32)) > 0:  # else padding, the future, or outside every window
            scores = scale * tile_scores(queries, keys, v, step, position, steps, positions, width, has_powers)
            weights, shrinkage, peak, total = _add_tile(tl.where(is_allowed, scores, float("-inf")), peak, total)
            numbers = values + (batch * positions + position[:, None]) * value_width + column
            tile = tl.load(numbers, (position < positions)[:, None] & (column < value_width), 0.0)
            context = tl.dot(weights, tile, context * shrinkage[:, None], input_precision="ieee")
    is_empty, row = total == 0.0, batch * steps + step
    context /= tl.where(is_empty, 1.0, total)[:, None]
    tl.store(contexts + row[:, None] * value_width + column, context, (step < steps)[:, None] & (column < value_width))
    tl.store(log_sums + row, tl.where(is_empty, float("inf"), peak + tl.log(total)), step < steps)
