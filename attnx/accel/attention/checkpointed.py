"""The kernel ``checkpointed``, and attention in chunks for other kernels: only a chunk's outputs are kept."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from attnx.accel.attention.kernels import Kernel
from attnx.attention.attention import Attention
from attnx.attention.inputs import query_mask
from attnx.attention.scorers.additive import Additive
from attnx.attention.scorers.concat import Concat
from attnx.attention.scorers.mlp import Mlp
from attnx.attention.types import AttentionInputs, AttentionOutput, Memory


class CheckpointedKernel(Kernel):
    """The definition, chunk by chunk: only one chunk's hidden layers are in memory, forwards and backwards.

    Formula: ``context(q) = sum_m normalize(score(q, m))(m) value(m), for some rows and queries at a time``
    Source: Chen et al. 2016 (compute again what is not kept), https://arxiv.org/abs/1604.06174

    A chunk is as many rows of the batch, or of one row as many queries, as fit into ``attention.chunk_mib`` MiB; all of
    it but the context is computed once more for the gradients. Scores and weights exist for one chunk, too, unless they
    are requested. Where a single query does not fit, its memory is compared in parts.

    >>> from attnx import accel
    >>> from attnx.attention import build
    >>> attention = accel.enable(build(scorer="mlp", query_size=13, memory_size=26, chunk_mib=1))
    >>> attention(torch.ones(2, 97, 13), attention.make_memory(torch.ones(2, 101, 26))).context.shape
    torch.Size([2, 97, 26])
    """

    name, scorers = "checkpointed", (Additive, Mlp, Concat)
    supports_bias = supports_softcap = True

    def supports(self, attention: Attention, inputs: AttentionInputs) -> bool:
        """Whether there are more pairs than fit into a chunk."""
        pairs = inputs.prepared_queries.shape[:2].numel() * inputs.memory.keys.shape[-2]
        return pairs > pairs_per_chunk(attention, inputs)

    def __call__(self, attention: Attention, inputs: AttentionInputs) -> AttentionOutput:
        """Attend chunk by chunk, and join the outputs."""
        pairs, positions = pairs_per_chunk(attention, inputs), inputs.memory.keys.shape[-2]

        def attend(chunk: AttentionInputs) -> AttentionOutput:
            parts = torch.split(chunk.memory.keys, pairs, dim=-2)
            if len(parts) == 1:
                return attention.attend_with_scores(chunk, attention.score(chunk))
            # One query does not fit: its memory is compared in parts.
            score = functools.partial(checkpointed, attention.scorer.score, chunk.prepared_queries)
            return attention.attend_with_scores(chunk, torch.cat([score(part) for part in parts], dim=-1))

        return attend_in_chunks(attend, inputs, pairs // positions)


def pairs_per_chunk(attention: Attention, inputs: AttentionInputs) -> int:
    """How many pairs of a query and a position fit into a chunk, at least 1."""
    # Peak memory of a pair: three numbers per hidden unit (sums, outputs, one gradient), and eight more.
    numbers = 3 * getattr(attention.scorer, "hidden_size", 0) + 8
    return max(attention.chunk_mib * 2**20 // (numbers * inputs.prepared_queries.element_size()), 1)


def attend_in_chunks(
    attend: Callable[[AttentionInputs], AttentionOutput], inputs: AttentionInputs, max_queries: int
) -> AttentionOutput:
    """Attend with so many queries at a time, of one row or of all queries of several rows, and join the outputs."""
    memory = inputs.memory
    (rows, queries), positions = inputs.prepared_queries.shape[:2], memory.keys.shape[-2]
    is_shared = memory.mask.dim() == 2 and not memory.is_causal
    shared, mask_by_query = (memory.mask, None) if is_shared else (None, query_mask(memory, queries))
    allowed_mask = None if inputs.allowed_mask is None else inputs.allowed_mask.expand(rows, queries, positions)
    steps = inputs.steps.expand(rows, queries)
    by_row = memory.keys, memory.values, shared
    by_query = inputs.queries, inputs.prepared_queries, steps, mask_by_query, allowed_mask, inputs.dropout_mask
    outputs = []
    for keys, values, row_mask, *query_parts in _split((*by_row, *by_query), max_queries // queries, 0):
        reads = []
        for chunk, prepared, chunk_steps, step_mask, pair_mask, dropout_mask in _split(query_parts, max_queries, 1):
            part = inputs._replace(
                queries=chunk,
                prepared_queries=prepared,
                memory=Memory(keys, values, row_mask if step_mask is None else step_mask, memory.source_sizes),
                steps=chunk_steps,
                allowed_mask=pair_mask,
                dropout_mask=dropout_mask,
            )
            reads.append(checkpointed(attend, part))
        outputs.append(_concat(reads, 1))
    return _concat(outputs, 0)


def checkpointed(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function without keeping its intermediate tensors: the gradients call it again."""
    if not torch.is_grad_enabled():
        return function(*args)
    return checkpoint(function, *args, use_reentrant=False, preserve_rng_state=False)


def _split(parts: Sequence[Tensor | None], size: int, axis: int) -> Iterator[tuple[Any, ...]]:
    """Several tensors in step, at least one at a time; what is None stays None."""
    # Split all at once: gradients of slices, each taken apart, would be as large as the whole.
    chunks = [None if part is None else torch.split(part, max(size, 1), axis) for part in parts]
    count = next(len(chunk) for chunk in chunks if chunk is not None)
    return zip(*(itertools.repeat(None, count) if chunk is None else chunk for chunk in chunks), strict=True)


def _concat(outputs: list[AttentionOutput], axis: int) -> AttentionOutput:
    """What is None in one read is so in all."""
    fields: Any = zip(*outputs, strict=True)
    return AttentionOutput._make(None if field[0] is None else torch.cat(field, axis) for field in fields)
