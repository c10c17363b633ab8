"""The normalizer ``entmax``."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from attnx.errors import UserError
from attnx.ops import at_least_float32, entmax
from attnx.registry import PositiveFloat, register

# Where a learned alpha ends below: closer to 1 its own gradient loses its digits, and weights are softmax's anyway.
LEAST = 1.01


@register("normalizer", "entmax")
class Entmax(nn.Module):
    """Between softmax (``alpha`` 1) and sparsemax (``alpha`` 2): low scores weigh exactly 0, the others smoothly more.

    Formula: ``a_m = max(0, (alpha - 1) e_m / T - tau)^(1 / (alpha - 1)), tau such that they sum to 1``
    Source: Peters et al. 2019, section 3, https://arxiv.org/abs/1905.05702;
        alpha learned: Correia et al. 2019, section 3, https://arxiv.org/abs/1909.00015

    With ``learned`` alpha is one number between 1.01 and 2, 1.01 + 0.99 sigmoid(x), that starts where you put it.
    Above 2 gradients have no bound, so larger alphas are refused.

    >>> Entmax()(torch.tensor([0.4, 0.0, -1.3, 9.0, 9.0]), torch.tensor([True, True, True, False, False]))
    tensor([0.6400, 0.3600, 0.0000, 0.0000, 0.0000])
    """

    is_distribution = True

    def __init__(self, alpha: float = 1.5, learned: bool = False, temperature: PositiveFloat = 1.0) -> None:
        super().__init__()
        if not 1 < alpha <= 2:
            raise UserError(
                f"normalizer.alpha={alpha}: entmax takes an alpha above 1, up to 2; "
                f"1 is normalizer=softmax, 2 is normalizer=sparsemax"
            )
        if learned and not LEAST < alpha < 2:
            raise UserError(f"normalizer.alpha={alpha}: an alpha that is learned starts between {LEAST} and 2")
        self.temperature = temperature
        self.start = alpha
        self.logit = nn.Parameter(torch.tensor(math.log((alpha - LEAST) / (2 - alpha)))) if learned else None

    @property
    def alpha(self) -> float | Tensor:
        """The alpha in force: what was given, or what has been learned."""
        if self.logit is None:
            return self.start
        return LEAST + (2 - LEAST) * torch.sigmoid(self.logit.to(at_least_float32(self.logit.dtype)))

    def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        """Scores (..., m) and their mask -> weights (..., m)."""
        return entmax(scores / self.temperature, allowed_mask, self.alpha)
