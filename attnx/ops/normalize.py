"""From scores to weights: normalizers of rows with masks, and the tests of masks and number types that they need.

Scores are (..., m), and an ``allowed_mask`` (..., m) bool is broadcast against them. Weights are (..., m), 0 where
forbidden; each row of a distribution sums to 1, or to 0, with zero gradients, if nothing is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """The type itself, or float32 for a type of 16 bits.

    >>> at_least_float32(torch.bfloat16), at_least_float32(torch.float64)
    (torch.float32, torch.float64)
    """
    return torch.promote_types(dtype, torch.float32)


def unit_vectors(vectors: Tensor) -> Tensor:
    """Vectors (..., d) of length 1; what is shorter than numbers of its kind are exact is divided by that, no zero.

    >>> unit_vectors(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    wide = vectors.to(at_least_float32(vectors.dtype))
    return F.normalize(wide, dim=-1, eps=torch.finfo(vectors.dtype).eps).to(vectors.dtype)


def has_autocast(tensor: Tensor) -> bool:
    """Whether autocast decides in which type matrix products with a tensor are computed; the device meta has none."""
    is_enabled = not tensor.is_meta and torch.is_autocast_enabled(tensor.device.type)
    return is_enabled and tensor.dtype != torch.float64


def product_dtype(tensor: Tensor) -> torch.dtype:
    """The type in which matrix products with a tensor are computed: its own, or that of autocast."""
    return torch.get_autocast_dtype(tensor.device.type) if has_autocast(tensor) else tensor.dtype


def is_tracing() -> bool:
    """Whether a model is being traced, compiled, exported, vectorized or differentiated forwards."""
    traced = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
    return traced or torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def is_all_true_on_cpu(mask: Tensor) -> bool:
    """Whether a mask is known to be True everywhere. False on other devices and while tracing: nothing waits."""
    is_plain = type(mask) is Tensor and mask.device.type == "cpu" and not is_tracing()
    return is_plain and bool(mask.all())


def masked_normalize(normalize: Callable[[Tensor], Tensor], scores: Tensor, allowed_mask: Tensor) -> Tensor:
    """Normalize each row as if its forbidden positions were not there.

    ``normalize`` maps scores (..., m) to weights (..., m). It meets -inf where a position is forbidden, but never a row
    of nothing else, and never an empty row.

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

    >>> masked_softmax(torch.tensor([[0.0, 0.0, 9.0], [1.0, 2.0, 3.0]]),
    ...                torch.tensor([[True, True, False], [False, False, False]]))
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    return masked_normalize(lambda row: torch.softmax(row, dim=-1), scores, allowed_mask)


def hardmax(scores: Tensor, allowed_mask: Tensor) -> Tensor:
    """One-hot at the highest allowed score, the first of equals; straight-through: backwards it is softmax.

    >>> hardmax(torch.tensor([3.0, 5.0, 5.0, 9.0]), torch.tensor([True, True, True, False]))
    tensor([0., 1., 0., 0.])
    """
    return masked_normalize(_straight_through, scores, allowed_mask)


def _straight_through(scores: Tensor) -> Tensor:
    soft = torch.softmax(scores, dim=-1)
    hard = torch.zeros_like(soft).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
    # What is added is exactly 0, and its gradient is softmax's.
    return hard + (soft - soft.detach())


def sparsemax(scores: Tensor, allowed_mask: Tensor) -> Tensor:
    """Project the scores onto the simplex: of all weights that sum to 1, those nearest to the scores.

    They are ``max(0, score - threshold)`` (Martins and Astudillo 2016, proposition 1), exactly 0 for whatever scores
    below the threshold. Gradients are exact and of any order.

    >>> sparsemax(torch.tensor([1.0, 0.5, -1.0, 9.0]), torch.tensor([True, True, True, False]))
    tensor([0.7500, 0.2500, 0.0000, 0.0000])
    """
    wide = scores.to(at_least_float32(scores.dtype))
    return masked_normalize(_project_to_simplex, wide, allowed_mask).to(scores.dtype)


def _project_to_simplex(scores: Tensor) -> Tensor:
    """(..., m) scores, -inf among them -> (..., m) weights."""
    # Weights do not change when a row is shifted; below its highest score nothing large is left to lose digits by.
    gaps = scores - scores.detach().amax(-1, keepdim=True)
    with torch.no_grad():
        # The k highest alone ask for the threshold (their sum - 1) / k; the highest of these is the true one.
        ordered = gaps.sort(dim=-1, descending=True).values
        count = torch.arange(1, gaps.shape[-1] + 1, device=gaps.device)
        lowest = ((ordered.cumsum(-1) - 1) / count).amax(-1, keepdim=True)
        support = ~(gaps <= lowest)  # NaN is compared with nothing, and has to reach the weights
    # Told which scores are above it, the threshold is what makes them sum to 1: plain arithmetic to differentiate.
    above = torch.where(support, gaps, 0.0).sum(-1, keepdim=True)
    threshold = (above - 1) / support.sum(-1, keepdim=True)
    return torch.where(support, gaps - threshold, 0.0).clamp(min=0.0)


def entmax(scores: Tensor, allowed_mask: Tensor, alpha: float | Tensor = 1.5) -> Tensor:
    """The weights p that maximize ``p . scores + H(p)``, H being the entropy ``sum(p - p^alpha) / (alpha^2 - alpha)``.

    They are ``max(0, (alpha - 1) score - threshold)^(1 / (alpha - 1))`` (Peters et al. 2019, section 3), exactly 0
    for low scores. Towards alpha 1 they become softmax; alpha 2 is sparsemax, and solved as such where it is a number.
    Gradients, that of alpha included, are exact and of any order, in reverse mode. Alpha is above 1, up to 2; as a
    tensor it is broadcast against (..., 1) and may be learned.

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
        if _is_jit_tracing():  # a traced program holds no function of ours
            return _entmax_weights(masked, expanded)
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
        return _entmax_weights(scores, alpha_minus_1)

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


def _is_jit_tracing() -> bool:
    """Whether a program is being made of what is computed."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def _entmax_weights(scores: Tensor, alpha_minus_1: Tensor) -> Tensor:
    """The weights by u, the logarithm of the largest of them, for which they sum to 1.

    The others follow as ``exp(u + log(1 + b gap exp(-b u)) / b)``, which keeps its digits down to b = 0, where it is
    softmax. In the threshold -exp(b u), the (1 / b)-norm of ``max(0, b gap - threshold)`` is convex and falling, and
    it must be 1: Newton's steps from u = 0 never go too far. Each at least quarters value times slope, which bounds the
    number of steps. About five suffice, since the norm is nearly straight. A CPU stops when converged; a GPU takes all
    steps, because a test would synchronize.
    """
    gaps = scores - scores.amax(-1, keepdim=True)
    eps, tiny = torch.finfo(gaps.dtype).eps, torch.finfo(gaps.dtype).tiny
    traced = _is_jit_tracing()  # then the steps must serve any scores, and a million of them
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
    return weights / weights.sum(-1, keepdim=True)
