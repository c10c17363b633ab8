"""Records what attention computes while a model decodes: queries, scores, masks, weights and contexts."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnx.attention.attention import Attention
from attnx.attention.types import AttentionInputs, AttentionOutput

CALL = inspect.signature(Attention.forward)


class AttentionRead(NamedTuple):
    """One read (q = 1) by every row, in h heads."""

    queries: Tensor  # (r, h, q)
    scores: Tensor  # (r, h, m)
    allowed_mask: Tensor  # (r, h, m) bool
    weights: Tensor  # (r, h, m)
    gain: Tensor | None  # (r, h, m), or None if no scope multiplies weights
    context: Tensor  # (r, h, v)


@contextmanager
def record_reads(model: nn.Module) -> Iterator[list[AttentionRead]]:
    """List the reads whose weights are requested, in the order of the calls, until the context ends.

    A head of several that are computed as rows of one call is a row: (r h, 1, ...). The model computes what it always
    does: hooks look at its attention by the definition, so its fast paths are to be disabled first.
    """
    reads: list[AttentionRead] = []

    def record(attention: nn.Module, args: Any, kwargs: dict[str, Any], output: AttentionOutput) -> None:
        assert isinstance(attention, Attention)
        if output.weights is None or output.scores is None:
            return
        call = CALL.bind(attention, *args, **kwargs).arguments
        queries, memory, steps = call["queries"], call["memory"], call.get("steps")
        steps = torch.arange(queries.shape[1]) if steps is None else steps
        mask = attention.scope_mask(AttentionInputs(queries, queries, memory, steps, call.get("allowed_mask")))
        allowed_mask = mask.allowed_mask.expand_as(output.scores)
        gain = None if mask.gain is None else mask.gain.expand_as(output.scores)
        reads.append(AttentionRead(queries, output.scores, allowed_mask, output.weights, gain, output.context))

    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    hooks = [attention.register_forward_hook(record, with_kwargs=True) for attention in attentions]
    try:
        yield reads
    finally:
        for hook in hooks:
            hook.remove()


def join_heads(reads: Sequence[AttentionRead], rows: int) -> AttentionRead | None:
    """The reads of a step as one, their heads in the order of the calls, which is that of saved weights."""
    if not reads:
        return None

    def join(fields: Sequence[Tensor | None]) -> Tensor | None:
        parts = [field.reshape(rows, len(field) // rows, field.shape[-1]) for field in fields if field is not None]
        return torch.cat(parts, 1) if len(parts) == len(reads) else None

    joined: Any = [join(fields) for fields in zip(*reads, strict=True)]
    return AttentionRead(*joined)
