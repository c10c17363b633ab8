"""The normalizer ``exponential``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.ops import masked_normalize
from attnx.registry import PositiveFloat, register

MAX_LOG_WEIGHT = 11.0  # its exponential is below the largest number of 16 bits, 65,504


@register("normalizer", "exponential")
class Exponential(nn.Module):
    """Each position weighs the exponential of its own score: a softmax without its sum.

    Formula: ``a_m = exp(e_m / T)``
    Source: Graves 2013, equation 46, https://arxiv.org/abs/1308.0850, whose window is such weights

    It is for scores that are logarithms of weights. Other scores, such as inner products, have weights without bound:
    those above 11 T count as 11 T, so no weight is above exp(11), sixty thousand.

    >>> Exponential()(torch.tensor([0.0, -50.0, 0.5, 9.0]).log1p(), torch.tensor([True, False, True, False]))
    tensor([1.0000, 0.0000, 1.5000, 0.0000])
    """

    is_distribution = False

    def __init__(self, temperature: PositiveFloat = 1.0) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        """Scores (..., m) and their mask -> weights (..., m)."""
        return masked_normalize(torch.exp, (scores / self.temperature).clamp(max=MAX_LOG_WEIGHT), allowed_mask)
