"""Positions as vectors: what keys can be made of instead of states."""

from __future__ import annotations

import torch
from torch import Tensor


def one_hot(positions: Tensor, width: int) -> Tensor:
    """(..., m) int64 -> (..., m, width), a 1 at the position; those from ``width`` - 1 on share the last place."""
    return torch.nn.functional.one_hot(positions.clamp(max=width - 1), width).to(torch.get_default_dtype())


def sinusoidal(positions: Tensor, width: int) -> Tensor:
    """(..., m) int64 -> (..., m, width), sines then cosines of wavelengths from 2 pi to 10,000 * 2 pi.

    Vaswani et al. 2017, section 3.5, https://arxiv.org/abs/1706.03762, with sines and cosines one after another
    rather than in turn.
    """
    halves = (width + 1) // 2
    rates = 10_000.0 ** (-torch.arange(halves, device=positions.device) / halves)
    angles = positions[..., None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[..., :width].to(torch.get_default_dtype())


POSITIONS = {"one_hot": one_hot, "sinusoidal": sinusoidal}
