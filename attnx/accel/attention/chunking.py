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
    shared, query_mask = (memory.present, None) if memory.present.dim() == 2 else (None, memory.present)
    allowed = None if inputs.allowed is None else inputs.allowed.expand(rows, queries, positions)
    by_row = memory.keys, memory.values, shared
    by_query = (
        inputs.queries,
        inputs.prepared_queries,
        inputs.steps.expand(rows, queries),
        query_mask,
        allowed,
        inputs.dropout_mask,
    )
    outputs = []
    for keys, values, present, *query_parts in _split((*by_row, *by_query), max_queries // queries, 0):
        chunks = [
            inputs._replace(
                queries=queries,
                prepared_queries=prepared,
                memory=Memory(keys, values, present if query_mask_chunk is None else query_mask_chunk, memory.lengths),
                steps=steps,
                allowed=allowed,
                dropout_mask=dropout_mask,
            )
            for queries, prepared, steps, query_mask_chunk, allowed, dropout_mask in _split(query_parts, max_queries, 1)
        ]
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
