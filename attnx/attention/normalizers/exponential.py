"""The normalizer ``exponential``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.ops import masked_normalize, product_dtype
from attnx.registry import PositiveFloat, register

MAX_LOG_WEIGHT = 11.0  # its exponential is below the largest number of 16 bits, 65,504
MAX_SUM_FLOAT16 = 256.0  # the sum, and the values that it multiplies, may be the root of the largest number


@register("normalizer", "exponential")
class Exponential(nn.Module):
    """Each position weighs the exponential of its own score: a softmax without its sum.

    Formula: ``a_m = exp(e_m / T)``
    Source: Graves 2013, equation 46, https://arxiv.org/abs/1308.0850, whose window is such weights

    It is for scores that are logarithms of weights. Other scores, such as inner products, have weights without bound:
    those above 11 T count as 11 T, so no weight is above exp(11), sixty thousand. In float16, whose largest number is
    65,504, a row whose weights sum to more than 256 is divided down to that sum, so that its context is finite for
    values up to 256.

    >>> Exponential()(torch.tensor([0.0, -50.0, 0.5, 9.0]).log1p(), torch.tensor([True, False, True, False]))
    tensor([1.0000, 0.0000, 1.5000, 0.0000])
    """

    is_distribution = False

    def __init__(self, temperature: PositiveFloat = 1.0) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        """Scores (..., m) and their mask -> weights (..., m)."""
        log_weights = (scores / self.temperature).clamp(max=MAX_LOG_WEIGHT)
        if product_dtype(scores) is not torch.float16:
            return masked_normalize(torch.exp, log_weights, allowed_mask)
        return masked_normalize(_exp_with_bounded_sum, log_weights.float(), allowed_mask).to(scores.dtype)


def _exp_with_bounded_sum(log_weights: Tensor) -> Tensor:
    """(..., m) float32 -> their exponentials, divided so that no row sums to more than a float16 can multiply."""
    weights = torch.exp(log_weights)
    return weights * (MAX_SUM_FLOAT16 / weights.sum(-1, keepdim=True).clamp(min=MAX_SUM_FLOAT16))
