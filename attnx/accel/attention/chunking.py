"""A read in tiles, which several kernels share: of a tile nothing is kept but what was read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from attnx.attention.types import AttentionInputs, AttentionOutput, Memory


def in_chunks(
    attend: Callable[[AttentionInputs], AttentionOutput], inputs: AttentionInputs, max_queries: int
) -> AttentionOutput:
    """Read so many queries at a time, of one row or of several whole ones, and join what was read."""
    memory = inputs.memory
    rows, queries, positions = (*inputs.prepared_queries.shape[:2], memory.keys.shape[-2])
    shared, query_mask = (memory.mask, None) if memory.mask.dim() == 2 else (None, memory.mask)
    allowed_mask = None if inputs.allowed_mask is None else inputs.allowed_mask.expand(rows, queries, positions)
    steps = inputs.steps.expand(rows, queries)
    by_row = memory.keys, memory.values, shared
    by_query = inputs.queries, inputs.prepared_queries, steps, query_mask, allowed_mask, inputs.dropout_mask
    outputs = []
    for keys, values, row_mask, *query_parts in _split((*by_row, *by_query), max_queries // queries, 0):
        chunks = []
        for chunk, prepared, steps, step_mask, allowed_mask, dropout_mask in _split(query_parts, max_queries, 1):
            read = Memory(keys, values, row_mask if step_mask is None else step_mask, memory.lengths)
            parts = chunk, prepared, read, steps, allowed_mask, inputs.history, dropout_mask, inputs.need_weights
            chunks.append(AttentionInputs(*parts))
        outputs.append(_concat([checkpointed(attend, chunk) for chunk in chunks], 1))
    return _concat(outputs, 0)


def checkpointed(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function without keeping its intermediate tensors: the gradients call it again."""
    if not torch.is_grad_enabled():
        return function(*args)
    return checkpoint(function, *args, use_reentrant=False, preserve_rng_state=False)


def _split(parts: Sequence[Tensor | None], size: int, axis: int) -> Iterator[tuple[Any, ...]]:
    """Several tensors in step, at least one at a time; what is None stays None."""
    # Split all at once: gradients of slices, each taken apart, would be as large as the whole.
    sizes = max(size, 1)
    return zip(
        *(itertools.repeat(None) if part is None else torch.split(part, sizes, axis) for part in parts), strict=False
    )


def _concat(outputs: list[AttentionOutput], axis: int) -> AttentionOutput:
    """What is None in one read is so in all."""
    parts: list[Any] = [None if field[0] is None else torch.cat(field, axis) for field in zip(*outputs, strict=True)]
    return AttentionOutput(*parts)
