"""A decoder's state as a flat list of tensors and back: files have named inputs and outputs and nothing nested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from attnx.attention import Memory
from attnx.models.encoder_decoder import DecoderState


def flat(state: DecoderState) -> list[Tensor]:
    """Every tensor of the state, the batch first; how long each source of the memory is becomes the width of one."""
    memory = state.memory
    lengths = [memory.present.new_zeros(memory.present.shape[0], length) for length in memory.lengths]
    return [*lengths, *_leaves(state)]


def nested(tensors: list[Tensor], like: DecoderState) -> DecoderState:
    """The state of which :func:`flat` made these tensors, nested as in ``like``."""
    sources = len(like.memory.lengths)
    lengths = tuple(one.shape[1] for one in tensors[:sources])
    state: DecoderState = _nested(iter(tensors[sources:]), like)
    return state._replace(memory=state.memory._replace(lengths=lengths))


def _leaves(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, Memory):
        yield from tree[:3]
    elif isinstance(tree, tuple):
        for part in tree:
            yield from _leaves(part)


def _nested(tensors: Iterator[Tensor], like: Any) -> Any:
    if isinstance(like, Tensor):
        return next(tensors)
    if isinstance(like, Memory):
        return Memory(next(tensors), next(tensors), next(tensors), like.lengths)
    if isinstance(like, tuple):
        parts = [_nested(tensors, part) for part in like]
        return like._make(parts) if hasattr(like, "_make") else tuple(parts)
    return like
