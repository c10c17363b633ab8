"""Runs a recurrence over chunks of positions, in a precision that holds its state."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from attnx.attention.inputs import check_tensor
from attnx.errors import UserError
from attnx.ops import at_least_float32, has_autocast, is_tracing

State = TypeVar("State")


class Decays(NamedTuple):
    """By how much a state decays over a chunk, where each position multiplies it by a number from 0 to 1."""

    since_start: Tensor  # (b, h, c) from before the chunk to each position
    between: Tensor  # (b, h, c, c) to each position from each earlier one; 0 from later ones
    until_end: Tensor  # (b, h, c) from each position to the last
    total: Tensor  # (b, h)


def chunk_decays(log_decays: Tensor) -> Decays:
    """The decays over a chunk of the logarithms (b, h, c) of those of each position; no exponent is above 0."""
    summed, total = log_decays.cumsum(-1), log_decays.sum(-1)
    exponents = summed[..., :, None] - summed[..., None, :]
    is_later = torch.ones_like(exponents, dtype=torch.bool).triu(1)
    between = exponents.masked_fill(is_later, -torch.inf).exp()
    return Decays(summed.exp(), between, (total[..., None] - summed).exp(), total.exp())


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
        chunks = zip(*(torch.split(part, chunk, dim=2) for part in wide), strict=True)
        # A trace would fix the number of chunks: it has one, of all positions.
        for parts in [wide] if torch._C._get_tracing_state() is not None else chunks:
            output, state = run(state, *parts)
            outputs.append(output)
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2), state


def zero_padding(vectors: Tensor, mask: Tensor | None) -> Tensor:
    """Vectors (b, t, d) with zeros where the mask (b, t) is False; as they are without a mask.

    Raises:
        UserError: the mask is of another shape or type.
    """
    if mask is None:
        return vectors
    if not is_tracing():
        check_tensor("mixer: mask", mask, "bool", vectors.shape[:2])
    return vectors.masked_fill(~mask[..., None], 0.0)


def split_heads(vectors: Tensor, heads: int) -> Tensor:
    """(b, t, h k) -> (b, h, t, k)."""
    rows, steps, size = vectors.shape  # in full: `unflatten` has fixed lengths in a trace
    return vectors.reshape(rows, steps, heads, int(size) // heads).transpose(1, 2)


def join_heads(vectors: Tensor) -> Tensor:
    """(b, h, t, k) -> (b, t, h k)."""
    return vectors.transpose(1, 2).flatten(2)


def head_width(heads: int, size: int, multiple: int = 1) -> int:
    """The width of one head; a UserError if the heads do not divide ``size`` into widths that are multiples of this."""
    if size % (heads * multiple):
        raise UserError(f"{heads} heads need a hidden_size that is a multiple of {heads * multiple}, and it is {size}")
    return size // heads
