"""The normalizer ``tempered``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.ops import masked_softmax
from attnx.registry import PositiveFloat, register


@register("normalizer", "tempered")
class Tempered(nn.Module):
    """A softmax that is flatter (temperature above 1) or sharper (below).

    Formula: ``a_m = exp(e_m / T) / sum_j exp(e_j / T), j over the allowed positions``
    Source: Hinton et al. 2015, equation 1, https://arxiv.org/abs/1503.02531

    >>> import torch
    >>> Tempered(temperature=100.0)(torch.tensor([0.0, 0.0, 5.0]), torch.tensor([True, True, False]))
    tensor([0.5000, 0.5000, 0.0000])
    """

    is_distribution = True

    def __init__(self, temperature: PositiveFloat = 2.0) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        """Scores (..., m) and their mask -> weights (..., m)."""
        return masked_softmax(scores / self.temperature, allowed_mask)
