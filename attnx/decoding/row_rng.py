"""Random numbers of a row, which depend on the seed, its source and the step, and on no other row."""

from __future__ import annotations

import torch
from torch import Tensor

# Odd numbers without pattern: the golden ratio's and those of splitmix64 (Steele et al. 2014), as int64.
STRIDE, FIRST_FACTOR, SECOND_FACTOR = -7046029254386353131, -4658895280553007687, -7723592293110705685


def row_seeds(source: Tensor, source_mask: Tensor, seed: int) -> Tensor:
    """A seed (b,) int64 for each row: the same for the same source, however it is padded.

    Args:
        source: (b, s) symbols, or (b, s, features).
        source_mask: (b, s) bool, the source mask.
        seed: of the search.
    """
    if source.is_floating_point():
        source = source.float().contiguous().view(torch.int32)
    shape = source.shape[1:]
    position = torch.arange(1, shape.numel() + 1, device=source.device).view(shape)
    mixed = _mix(source.long() + STRIDE * position) * (source_mask if source.dim() == 2 else source_mask[..., None])
    return _mix(_mix(mixed.flatten(1).sum(1)) + seed)


def uniform(seeds: Tensor, copies: Tensor, step: int) -> Tensor:
    """(r,) in [0, 1), float64: a number for each seed, copy (r,) int64 and step."""
    bits = _mix(_mix(seeds + STRIDE * (copies + 1)) + step)
    return _shift_right(bits, 32).double() / 2**32


def _mix(bits: Tensor) -> Tensor:
    """The finalizer of splitmix64: every output bit depends on every input bit."""
    bits = (bits ^ _shift_right(bits, 30)) * FIRST_FACTOR
    bits = (bits ^ _shift_right(bits, 27)) * SECOND_FACTOR
    return bits ^ _shift_right(bits, 31)


def _shift_right(bits: Tensor, count: int) -> Tensor:
    """Shift right with zeros from the left: an int64 would keep its sign."""
    return (bits >> count) & ((1 << (64 - count)) - 1)
