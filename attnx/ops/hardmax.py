"""Hardmax with a straight-through gradient: forward one-hot, backward softmax."""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.ops.masked_normalize import masked_normalize


def hardmax(scores: Tensor, allowed_mask: Tensor) -> Tensor:
    """One-hot at the highest allowed score, the first of equals; straight-through: backwards it is softmax.

    Args:
        scores: (..., m).
        allowed_mask: (..., m) bool, broadcast against ``scores``.

    Returns:
        (..., m) weights, each row one 1 among zeros, or all zeros if nothing is allowed.

    >>> hardmax(torch.tensor([3.0, 5.0, 5.0, 9.0]), torch.tensor([True, True, True, False]))
    tensor([0., 1., 0., 0.])
    """
    return masked_normalize(_straight_through, scores, allowed_mask)


def _straight_through(scores: Tensor) -> Tensor:
    soft = torch.softmax(scores, dim=-1)
    hard = torch.zeros_like(soft).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
    # What is added is exactly 0, and its gradient is softmax's.
    return hard + (soft - soft.detach())
