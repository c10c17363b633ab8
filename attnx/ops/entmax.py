"""Entmax over the allowed positions: the family between softmax and sparsemax."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from attnx.ops.masked_normalize import masked_normalize
from attnx.ops.precision import at_least_float32
from attnx.ops.sparsemax import sparsemax
from attnx.ops.tracing import is_all_true_on_cpu


def entmax(scores: Tensor, allowed_mask: Tensor, alpha: float | Tensor = 1.5) -> Tensor:
    """The weights p that maximize ``p . scores + H(p)``, H being the entropy ``sum(p - p^alpha) / (alpha^2 - alpha)``.

    They are ``max(0, (alpha - 1) score - threshold)^(1 / (alpha - 1))`` (Peters et al. 2019, section 3), exactly 0
    for low scores. Towards alpha 1 they become softmax; alpha 2 is sparsemax, and solved as such where it is a number.
    Gradients, that of alpha included, are exact and of any order, in reverse mode.

    Args:
        scores: (..., m).
        allowed_mask: (..., m) bool, broadcast against ``scores``.
        alpha: above 1, up to 2; a tensor is broadcast against (..., 1) and may be learned.

    Returns:
        (..., m) weights, 0 where forbidden; each row sums to 1, or to 0 if nothing is allowed.

    >>> entmax(torch.tensor([0.4, 0.0, -1.3, 9.0]), torch.tensor([True, True, True, False]))
    tensor([0.6400, 0.3600, 0.0000, 0.0000])
    """
    if not isinstance(alpha, Tensor) and alpha == 2:
        return sparsemax(scores, allowed_mask)
    dtype = at_least_float32(scores.dtype)
    # alpha - 1 is what is handed on: it keeps its digits where alpha is close to 1.
    alpha_minus_1 = alpha.to(dtype) - 1 if isinstance(alpha, Tensor) else scores.new_full((), alpha - 1, dtype=dtype)

    def normalize(masked: Tensor) -> Tensor:
        expanded = alpha_minus_1.expand(*masked.shape[:-1], 1)
        if _traced():  # a traced program holds no function of ours
            return _weights(masked, expanded)
        weights: Tensor = _Entmax.apply(masked, expanded)  # type: ignore[no-untyped-call]
        return weights

    return masked_normalize(normalize, scores.to(dtype), allowed_mask).to(scores.dtype)


class _Entmax(torch.autograd.Function):
    """The weights, and their derivative from the weights alone.

    With b = alpha - 1 and the steepness w = p^(1 - b) of the positions that weigh anything, that p sums to 1 gives
    ``dp_i / ds_j = w_i (1 if i = j else 0) - w_i w_j / sum(w)`` (Peters et al. 2019, section 3) and
    ``dp_i / db = c_i - w_i sum(c) / sum(w)``, c = (w (p^b - 1) / b - p log p) / b: proposition 1 of Correia et al.
    2019, the scores in it written as what the weights say they are.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, alpha_minus_1: Tensor) -> Tensor:
        return _weights(scores, alpha_minus_1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output, inputs[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None]:
        weights, alpha_minus_1 = ctx.saved_tensors
        support = weights > 0
        inside = torch.where(support, weights, 1.0)  # its logarithm is then 0 elsewhere, and nothing becomes NaN
        steepness = torch.where(support, inside ** (1 - alpha_minus_1), 0.0)
        share = steepness / steepness.sum(-1, keepdim=True)
        centered = gradient - (gradient * share).sum(-1, keepdim=True)
        if not ctx.needs_input_grad[1]:
            return steepness * centered, None
        log = inside.log()
        curve = (steepness * torch.expm1(alpha_minus_1 * log) / alpha_minus_1 - weights * log) / alpha_minus_1
        return steepness * centered, (curve * centered).sum(-1, keepdim=True)


def _traced() -> bool:
    """Whether a program is being made of what is computed."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def _weights(scores: Tensor, alpha_minus_1: Tensor) -> Tensor:
    weights = _solve(scores - scores.amax(-1, keepdim=True), alpha_minus_1)
    return weights / weights.sum(-1, keepdim=True)


def _solve(gaps: Tensor, alpha_minus_1: Tensor) -> Tensor:
    """Find u, the logarithm of the largest weight, for which the weights sum to 1.

    The others follow as ``exp(u + log(1 + b gap exp(-b u)) / b)``, which keeps its digits down to b = 0, where it is
    softmax. In the threshold -exp(b u), the (1 / b)-norm of ``max(0, b gap - threshold)`` is convex and falling, and
    it must be 1: Newton's steps from u = 0 never go too far. Each at least quarters value times slope, which bounds the
    number of steps. About five suffice, since the norm is nearly straight. A CPU stops when converged; a GPU takes all
    steps, because a test would synchronize.
    """
    eps, tiny = torch.finfo(gaps.dtype).eps, torch.finfo(gaps.dtype).tiny
    traced = _traced()  # then the steps are those of any scores, and a million of them
    positions = 2**20 if traced else gaps.shape[-1]
    max_steps = math.ceil(math.log2(positions) - math.log2(eps) / 2) + 1
    peak, weights = torch.zeros_like(gaps[..., :1]), gaps
    for _ in range(max_steps):
        fall = (alpha_minus_1 * gaps * torch.exp(-alpha_minus_1 * peak)).clamp(min=-1.0)
        weights = torch.exp(peak + torch.log1p(fall) / alpha_minus_1)
        total = weights.sum(-1, keepdim=True)
        if is_all_true_on_cpu(total <= 1 + 8 * eps):
            break
        slope = (weights / (1 + fall).clamp(min=tiny)).sum(-1, keepdim=True)
        peak = peak + torch.log1p(total * torch.expm1(-alpha_minus_1 * total.log()) / slope) / alpha_minus_1
    return weights
