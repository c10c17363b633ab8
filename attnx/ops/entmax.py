"""Entmax over the allowed positions: the family between softmax and sparsemax."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from attnx.ops.over_allowed import over_allowed
from attnx.ops.sparsemax import sparsemax


def entmax(scores: Tensor, allowed: Tensor, alpha: float | Tensor = 1.5) -> Tensor:
    """The weights p that maximise ``p . scores + H(p)``, H being the entropy ``sum(p - p^alpha) / (alpha^2 - alpha)``.

    They are ``max(0, (alpha - 1) score - threshold)^(1 / (alpha - 1))`` (Peters et al. 2019, section 3), exactly 0
    for low scores. Towards alpha 1 they become softmax; alpha 2 is sparsemax. An alpha of 1.5 or 2 that is a number is
    solved by sorting, any other by halving an interval until it is as small as the dtype's precision.
    Gradients, that of alpha included, are exact and of any order.

    Args:
        scores: (..., m).
        allowed: (..., m) bool, broadcast against ``scores``.
        alpha: above 1, up to 2; a tensor is broadcast against (..., 1) and may be learned.

    Returns:
        (..., m) weights, 0 where forbidden; each row sums to 1, or to 0 if nothing is allowed.

    >>> entmax(torch.tensor([0.4, 0.0, -1.3, 9.0]), torch.tensor([True, True, True, False]))
    tensor([0.6400, 0.3600, 0.0000, 0.0000])
    """
    fixed = None if isinstance(alpha, Tensor) else alpha
    if fixed == 2:
        return sparsemax(scores, allowed)
    wide = torch.promote_types(scores.dtype, torch.float32)
    # alpha - 1 is what is handed on: it keeps its digits where alpha is close to 1.
    bend = alpha.to(wide) - 1 if isinstance(alpha, Tensor) else scores.new_full((), alpha - 1, dtype=wide)

    def normalise(kept: Tensor) -> Tensor:
        weights: Tensor = _Entmax.apply(  # type: ignore[no-untyped-call]
            kept, bend.expand(*kept.shape[:-1], 1), fixed == 1.5
        )
        return weights

    return over_allowed(normalise, scores.to(wide), allowed).to(scores.dtype)


class _Entmax(torch.autograd.Function):
    """Weights from either solver, and their derivative from the weights alone.

    With b = alpha - 1 and the steepness w = p^(1 - b) of the positions that weigh anything, the condition that p sums
    to 1 gives ``dp_i / ds_j = w_i (1 if i = j else 0) - w_i w_j / sum(w)`` (Peters et al. 2019, proposition 2) and
    ``dp_i / db = c_i - w_i sum(c) / sum(w)``, c = (w (p^b - 1) / b - p log p) / b, which is proposition 1 of Correia et
    al. 2019 with the scores written as what the weights say they are.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, bend: Tensor, by_sorting: bool) -> Tensor:
        gaps = scores - scores.amax(-1, keepdim=True)
        weights = _by_sorting(gaps) if by_sorting else _by_halving(gaps, bend)
        weights = weights / weights.sum(-1, keepdim=True)
        ctx.save_for_backward(weights, bend)
        return weights

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        weights, bend = ctx.saved_tensors
        support = weights > 0
        inside = torch.where(support, weights, 1.0)  # its logarithm is then 0 elsewhere, and nothing becomes NaN
        steepness = torch.where(support, inside ** (1 - bend), 0.0)
        share = steepness / steepness.sum(-1, keepdim=True)
        centred = gradient - (gradient * share).sum(-1, keepdim=True)
        if not ctx.needs_input_grad[1]:
            return steepness * centred, None, None
        log = inside.log()
        curve = (steepness * torch.expm1(bend * log) / bend - weights * log) / bend
        return steepness * centred, (curve * centred).sum(-1, keepdim=True), None


def _by_sorting(gaps: Tensor) -> Tensor:
    """Alpha 1.5: weights are the squares of ``gap / 2 - threshold``, so each threshold is the root of a quadratic.

    Of the k highest, mean M and squared distances from it D, it is ``M - sqrt((1 - D) / k)``; k is right where the
    k-th is still above its own threshold (Peters et al. 2019, algorithm 2).
    """
    # No threshold is below -1, so whatever lies lower may as well lie at -2, and sums are never of -inf.
    halves = (gaps / 2).clamp(min=-2.0)
    ordered = halves.sort(dim=-1, descending=True).values
    count = torch.arange(1, gaps.shape[-1] + 1, device=gaps.device)
    mean = ordered.cumsum(-1) / count
    distances = ordered.square().cumsum(-1) - count * mean.square()
    thresholds = mean - ((1 - distances) / count).clamp(min=0.0).sqrt()
    last = (thresholds <= ordered).sum(-1, keepdim=True) - 1
    return (halves - thresholds.gather(-1, last)).clamp(min=0.0).square()


def _by_halving(gaps: Tensor, bend: Tensor) -> Tensor:
    """Any alpha: find u, the logarithm of the largest weight, for which the weights sum to 1.

    The others follow from it as ``exp(u + log(1 + b gap exp(-b u)) / b)``, which keeps its digits down to b = 0, where
    it is softmax. Their sum grows with u, which lies between -log(m) and 0.
    """

    def weights(peak: Tensor) -> Tensor:
        return torch.exp(peak + torch.log1p((bend * gaps * torch.exp(-bend * peak)).clamp(min=-1.0)) / bend)

    width = math.log(gaps.shape[-1])
    peak = torch.full_like(gaps[..., :1], -width)
    for _ in range(8 - round(math.log2(torch.finfo(gaps.dtype).eps))):
        width /= 2
        peak = torch.where(weights(peak + width).sum(-1, keepdim=True) <= 1, peak + width, peak)
    return weights(peak)
