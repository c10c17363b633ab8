"""The normalizer ``sparsemax``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.ops import sparsemax
from attnx.registry import PositiveFloat, register


@register("normalizer", "sparsemax")
class Sparsemax(nn.Module):
    """The weights nearest to the scores; those of low scores are exactly 0.

    Formula: ``a_m = max(0, e_m / T - tau), tau such that they sum to 1``
    Source: Martins and Astudillo 2016, equations 2 and 3, https://arxiv.org/abs/1602.02068

    Of all weights that sum to 1 these have the least squared distance to e / T. A position that scores T less than the
    best weighs nothing, and learns nothing; a higher ``temperature`` T lets more in.

    >>> import torch
    >>> Sparsemax()(torch.tensor([1.0, 0.5, -1.0, 9.0, 9.0]), torch.tensor([True, True, True, False, False]))
    tensor([0.7500, 0.2500, 0.0000, 0.0000, 0.0000])
    """

    is_distribution = True

    def __init__(self, temperature: PositiveFloat = 1.0) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        """Scores (..., m) and their mask -> weights (..., m)."""
        return sparsemax(scores / self.temperature, allowed_mask)
