"""A decoder's state as a flat list of tensors and back: files have named inputs and outputs and nothing nested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, cast

from torch import Tensor

from attnx.attention import Memory

State = TypeVar("State", bound=tuple[Any, ...])


def flat(state: tuple[Any, ...]) -> list[Tensor]:
    """Every tensor of the state, the batch first; how long each source of a memory is becomes the width of one."""
    return list(_leaves(state))


def nested(tensors: list[Tensor], like: State) -> State:
    """The state of which :func:`flat` made these tensors, nested as in ``like``."""
    return cast("State", _nested(iter(tensors), like))


def _leaves(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, Memory):
        for length in tree.lengths:
            yield tree.present.new_zeros(tree.present.shape[0], length)
        yield from tree[:3]
    elif isinstance(tree, tuple):
        for part in tree:
            yield from _leaves(part)


def _nested(tensors: Iterator[Tensor], like: Any) -> Any:
    if isinstance(like, Tensor):
        return next(tensors)
    if isinstance(like, Memory):
        lengths = tuple(next(tensors).shape[1] for _ in like.lengths)
        return Memory(next(tensors), next(tensors), next(tensors), lengths)
    if isinstance(like, tuple):
        parts = [_nested(tensors, part) for part in like]
        return like._make(parts) if hasattr(like, "_make") else tuple(parts)
    return like
