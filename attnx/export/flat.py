"""A decoder's state as a flat list of tensors and back: exported programs have no nested inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, cast

from torch import Tensor

from attnx.attention import Memory

State = TypeVar("State", bound=tuple[Any, ...])


def flatten_state(state: tuple[Any, ...]) -> list[Tensor]:
    """Return the tensors of a state, batch first; the lengths of a memory's sources become widths of tensors."""
    return list(_leaves(state))


def unflatten_state(tensors: list[Tensor], template: State) -> State:
    """Return the state that :func:`flatten_state` made these tensors of, nested like ``template``."""
    return cast("State", _unflatten(iter(tensors), template))


def _leaves(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, Memory):
        for length in tree.lengths:
            yield tree.mask.new_zeros(tree.mask.shape[0], length)
        yield from tree[:3]
    elif isinstance(tree, tuple):
        for part in tree:
            yield from _leaves(part)


def _unflatten(tensors: Iterator[Tensor], template: Any) -> Any:
    if isinstance(template, Tensor):
        return next(tensors)
    if isinstance(template, Memory):
        lengths = tuple(next(tensors).shape[1] for _ in template.lengths)
        return Memory(next(tensors), next(tensors), next(tensors), lengths)
    if isinstance(template, tuple):
        parts = [_unflatten(tensors, part) for part in template]
        return template._make(parts) if hasattr(template, "_make") else tuple(parts)
    return template
