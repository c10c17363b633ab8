"""The normalizer ``sigmoid``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.ops import masked_normalize
from attnx.registry import PositiveFloat, register


@register("normalizer", "sigmoid")
class Sigmoid(nn.Module):
    """Each position weighs what its own score says, whatever the others score.

    Formula: ``a_m = 1 / (1 + exp(-e_m / T - bias)); with log_length bias - log n, n the number of allowed positions``
    Source: Ramapuram et al. 2024, section 2 and appendix E, https://arxiv.org/abs/2409.04431

    Weights do not compete, so a query may read everything or nothing, and a context grows with the memory's length:
    with scores near 0 at first it is n / 2 times the mean. With ``log_length`` it starts near the mean, whatever the
    length. ``learned`` makes ``bias`` the start of a parameter of each head.

    >>> Sigmoid()(torch.tensor([0.0, 50.0, -50.0, 9.0, 9.0]), torch.tensor([True, True, True, False, False]))
    tensor([5.0000e-01, 1.0000e+00, 1.9287e-22, 0.0000e+00, 0.0000e+00])
    """

    is_distribution = False

    def __init__(
        self, bias: float = 0.0, log_length: bool = False, learned: bool = False, temperature: PositiveFloat = 1.0
    ) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.tensor([float(bias)])) if learned else bias
        self.log_length = log_length
        self.temperature = temperature

    def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        """Scores (..., m) and their mask -> weights (..., m)."""
        bias = self.bias.to(scores.dtype) if isinstance(self.bias, Tensor) else self.bias
        scores = scores / self.temperature + bias
        if self.log_length:
            length = allowed_mask.sum(-1, keepdim=True).clamp(min=1)
            scores = scores - length.log().to(scores.dtype)
        return masked_normalize(torch.sigmoid, scores, allowed_mask)
