"""Any map from scores to weights, kept to the allowed positions of each row."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnx.ops.tracing import is_all_true_on_cpu


def masked_normalize(normalize: Callable[[Tensor], Tensor], scores: Tensor, allowed_mask: Tensor) -> Tensor:
    """Normalize each row as if its forbidden positions were not there.

    Args:
        normalize: (..., m) scores -> (..., m) weights of the last axis. It meets -inf where a position is forbidden,
            but never a row of nothing else, and never an empty row.
        scores: (..., m).
        allowed_mask: (..., m) bool, broadcast against ``scores``.

    Returns:
        (..., m) weights, 0 where forbidden; a row in which nothing is allowed is all 0, as is its gradient.

    >>> masked_normalize(torch.sigmoid, torch.zeros(2, 3), torch.tensor([[True, True, False], [False, False, False]]))
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    if is_all_true_on_cpu(allowed_mask):
        masked = torch.broadcast_tensors(scores, allowed_mask)[0]  # type: ignore[no-untyped-call]
        return normalize(masked) if masked.shape[-1] else masked
    # A forbidden score becomes -inf only in rows that keep an allowed one; an all-forbidden row is normalized over
    # zeros instead, so that neither its weights nor its gradient can be NaN before it is set to zero.
    fill = torch.where(allowed_mask.any(-1, keepdim=True), -torch.inf, 0.0).to(scores.dtype)
    masked = torch.where(allowed_mask, scores, fill)
    return (normalize(masked) if masked.shape[-1] else masked).masked_fill(~allowed_mask, 0.0)


def masked_softmax(scores: Tensor, allowed_mask: Tensor) -> Tensor:
    """Softmax over the allowed positions of the last axis.

    A row in which nothing is allowed gives zeros, with zero (and finite) gradients, where the plain formula gives NaN.

    Args:
        scores: (..., m).
        allowed_mask: (..., m) bool, broadcast against ``scores``.

    Returns:
        (..., m) weights, 0 where forbidden; each row sums to 1, or to 0 if nothing is allowed.

    >>> masked_softmax(torch.tensor([[0.0, 0.0, 9.0], [1.0, 2.0, 3.0]]),
    ...                torch.tensor([[True, True, False], [False, False, False]]))
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    return masked_normalize(lambda row: torch.softmax(row, dim=-1), scores, allowed_mask)
