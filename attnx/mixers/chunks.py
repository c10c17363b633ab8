"""Runs a recurrence over chunks of positions, in a precision that holds its state."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar

import torch
from torch import Tensor

from attnx.errors import UserError
from attnx.ops import at_least_float32, has_autocast

State = TypeVar("State", bound=tuple[Tensor, ...])


def run_chunks(
    run: Callable[..., tuple[Tensor, State]], inputs: tuple[Tensor, ...], state: State, chunk: int
) -> tuple[Tensor, State]:
    """Run a recurrence over chunks of at most ``chunk`` positions, one after another.

    Args:
        run: from a state and a chunk of each input to the outputs (b, h, c, v) and the state after it.
        inputs: (b, h, t, ...), computed with in float32 or wider, whatever autocast says.
        state: before the first position.
        chunk: the memory of a chunk grows with its square, the number of its steps in Python with its inverse.
    """
    # A state sums over all positions, which 16 bits do not hold.
    wide = tuple(part.to(at_least_float32(part.dtype)) for part in inputs)
    autocast = torch.autocast(wide[0].device.type, enabled=False) if has_autocast(wide[0]) else nullcontext()
    outputs = []
    with autocast:
        for parts in zip(*(part.split(chunk, dim=2) for part in wide), strict=True):
            output, state = run(state, *parts)
            outputs.append(output)
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2), state


def zero_padding(vectors: Tensor, mask: Tensor | None) -> Tensor:
    """Vectors (b, t, d) with zeros where the mask (b, t) is False; as they are without a mask."""
    return vectors if mask is None else vectors.masked_fill(~mask[..., None], 0.0)


def split_heads(vectors: Tensor, heads: int) -> Tensor:
    """(b, t, h k) -> (b, h, t, k)."""
    split: Tensor = vectors.unflatten(-1, (heads, -1))  # type: ignore[no-untyped-call]
    return split.transpose(1, 2)


def join_heads(vectors: Tensor) -> Tensor:
    """(b, h, t, k) -> (b, t, h k)."""
    return vectors.transpose(1, 2).flatten(2)


def head_width(heads: int, size: int) -> int:
    """The width of one head.

    Raises:
        UserError: the heads do not divide ``size``.
    """
    if size % heads:
        raise UserError(f"heads={heads} does not divide hidden_size, {size}; choose another number of heads")
    return size // heads
