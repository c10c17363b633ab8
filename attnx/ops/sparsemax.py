"""Sparsemax over the allowed positions: the nearest point of the simplex, by sorting."""

from __future__ import annotations

import torch
from torch import Tensor

from attnx.ops.masked_normalize import masked_normalize
from attnx.ops.precision import at_least_float32


def sparsemax(scores: Tensor, allowed_mask: Tensor) -> Tensor:
    """Project the scores onto the simplex: of all weights that sum to 1, those nearest to the scores.

    They are ``max(0, score - threshold)`` (Martins and Astudillo 2016, proposition 1), exactly 0 for whatever scores
    below the threshold. Gradients are exact and of any order.

    Args:
        scores: (..., m).
        allowed_mask: (..., m) bool, broadcast against ``scores``.

    Returns:
        (..., m) weights, 0 where forbidden; each row sums to 1, or to 0 if nothing is allowed.

    >>> sparsemax(torch.tensor([1.0, 0.5, -1.0, 9.0]), torch.tensor([True, True, True, False]))
    tensor([0.7500, 0.2500, 0.0000, 0.0000])
    """
    wide = scores.to(at_least_float32(scores.dtype))
    return masked_normalize(_project, wide, allowed_mask).to(scores.dtype)


def _project(scores: Tensor) -> Tensor:
    """(..., m) scores, -inf among them -> (..., m) weights."""
    # Weights do not change when a row is shifted; below its highest score nothing large is left to lose digits by.
    gaps = scores - scores.detach().amax(-1, keepdim=True)
    with torch.no_grad():
        support = ~(gaps <= _threshold(gaps))  # NaN is compared with nothing, and has to reach the weights
    # Told which scores are above it, the threshold is what makes them sum to 1: plain arithmetic to differentiate.
    above = torch.where(support, gaps, 0.0).sum(-1, keepdim=True)
    threshold = (above - 1) / support.sum(-1, keepdim=True)
    return torch.where(support, gaps - threshold, 0.0).clamp(min=0.0)


def _threshold(gaps: Tensor) -> Tensor:
    """(..., m) -> (..., 1). The k highest alone ask for (their sum - 1) / k; the highest of these is the true one."""
    ordered = gaps.sort(dim=-1, descending=True).values
    count = torch.arange(1, gaps.shape[-1] + 1, device=gaps.device)
    return ((ordered.cumsum(-1) - 1) / count).amax(-1, keepdim=True)
