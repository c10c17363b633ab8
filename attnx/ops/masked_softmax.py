"""Softmax over the allowed positions, safe where nothing is allowed."""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.ops.masked_normalize import masked_normalize


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Softmax over the allowed positions of the last axis.

    A row in which nothing is allowed gives zeros, with zero (and finite) gradients, where the plain formula gives NaN.

    Args:
        scores: (..., m).
        allowed: (..., m) bool, broadcast against ``scores``.

    Returns:
        (..., m) weights, 0 where forbidden; each row sums to 1, or to 0 if nothing is allowed.

    >>> masked_softmax(torch.tensor([[0.0, 0.0, 9.0], [1.0, 2.0, 3.0]]),
    ...                torch.tensor([[True, True, False], [False, False, False]]))
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    return masked_normalize(lambda row: torch.softmax(row, dim=-1), scores, allowed)
