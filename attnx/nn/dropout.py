"""Dropout masks drawn before a schedule runs, so that every schedule drops the same units."""

from __future__ import annotations

import torch
from torch import Tensor


def dropout_mask(like: Tensor, rate: float, training: bool, *shape: int) -> Tensor | None:
    """Draw a mask of the given shape to multiply with: 0 with probability ``rate``, else 1 / (1 - rate).

    Returns None when nothing would be dropped. ``like`` gives dtype and device.
    """
    if not training or rate == 0.0:
        return None
    return torch.empty(shape, dtype=like.dtype, device=like.device).bernoulli_(1 - rate) / (1 - rate)
