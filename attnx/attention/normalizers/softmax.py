"""The normalizer ``softmax``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.ops import masked_softmax
from attnx.registry import PositiveFloat, register


@register("normalizer", "softmax")
class Softmax(nn.Module):
    """Exponentiate and divide by the sum over the allowed positions.

    Formula: ``a_m = exp(e_m / T) / sum_j exp(e_j / T), j over the allowed positions``
    Source: Bahdanau et al. 2015, equation 6, https://arxiv.org/abs/1409.0473

    Every allowed position gets some weight; a ``temperature`` T above 1 evens the weights out, one below 1 sharpens
    them. A row in which nothing is allowed gives zeros and not NaN.

    >>> import torch
    >>> Softmax()(torch.tensor([0.0, 0.0, 5.0]), torch.tensor([True, True, False]))
    tensor([0.5000, 0.5000, 0.0000])
    """

    is_distribution = True

    def __init__(self, temperature: PositiveFloat = 1.0) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        """Scores (..., m) and their mask -> weights (..., m)."""
        return masked_softmax(scores / self.temperature, allowed_mask)
