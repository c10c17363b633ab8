"""The normalizer ``sigmoid``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.ops import masked_normalize
from attnx.registry import PositiveFloat, register


@register("normalizer", "sigmoid")
class Sigmoid(nn.Module):
    """Each position weighs what its own score says, whatever the others score.

    Formula: ``a_m = 1 / (1 + exp(-e_m / T - bias))``
    Source: Ramapuram et al. 2024, section 2, https://arxiv.org/abs/2409.04431

    Weights do not compete, so a query may read everything or nothing, and a context grows with the memory's length m:
    with scores near 0 at first it is m/2 times the mean. A ``bias`` of about -log(m) makes it start near the mean.

    >>> Sigmoid()(torch.tensor([0.0, 50.0, -50.0, 9.0, 9.0]), torch.tensor([True, True, True, False, False]))
    tensor([5.0000e-01, 1.0000e+00, 1.9287e-22, 0.0000e+00, 0.0000e+00])
    """

    is_distribution = False

    def __init__(self, bias: float = 0.0, temperature: PositiveFloat = 1.0) -> None:
        super().__init__()
        self.bias = bias
        self.temperature = temperature

    def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        """Scores (..., m) and their mask -> weights (..., m)."""
        return masked_normalize(torch.sigmoid, scores / self.temperature + self.bias, allowed_mask)
