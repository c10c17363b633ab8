"""Chance that is a row's own: what is drawn for it depends on the seed, on it and on the step, on no other row."""

from __future__ import annotations

import torch
from torch import Tensor

# Odd numbers without pattern: the golden ratio's and those of splitmix64 (Steele et al. 2014), as int64.
STRIDE, FIRST, SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685


def keys(source: Tensor, present: Tensor, seed: int) -> Tensor:
    """A number (b,) int64 for each row: the same for the same source, however it is padded.

    Args:
        source: (b, s) symbols, or (b, s, features).
        present: (b, s) bool, where there is one.
        seed: another one gives other numbers.
    """
    if source.is_floating_point():
        source = source.float().contiguous().view(torch.int32)
    shape = source.shape[1:]
    place = torch.arange(1, shape.numel() + 1, device=source.device).view(shape)
    mixed = _mixed(source.long() + STRIDE * place) * (present if source.dim() == 2 else present[..., None])
    return _mixed(_mixed(mixed.flatten(1).sum(1)) + seed)


def uniform(key: Tensor, number: Tensor, step: int) -> Tensor:
    """(r,) in [0, 1), float64: for each key one for every number (r,) int64 and step, none to be told from another."""
    bits = _mixed(_mixed(key + STRIDE * (number + 1)) + step)
    return _shifted(bits, 32).double() / 2**32


def _mixed(number: Tensor) -> Tensor:
    """The finalizer of splitmix64: every bit of what comes out depends on every one that went in."""
    number = (number ^ _shifted(number, 30)) * FIRST
    number = (number ^ _shifted(number, 27)) * SECOND
    return number ^ _shifted(number, 31)


def _shifted(number: Tensor, places: int) -> Tensor:
    """To the right, with zeros from the left: an int64 would keep its sign."""
    return (number >> places) & ((1 << (64 - places)) - 1)
