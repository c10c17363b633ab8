"""The normalizer ``forward``."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.ops import at_least_float32, start_alignment
from attnx.registry import PositiveFloat, register

LOG_ZERO = -1e30
"""The logarithm of no weight: finite, so that differences of two are."""


@register("normalizer", "forward")
class Forward(nn.Module):
    """A softmax over what one step can reach: each position that the step before read, and the one after it.

    Formula: ``a_i,m = (a_i-1,m + a_i-1,m-1) exp(e_i,m / T) / sum_j (a_i-1,j + a_i-1,j-1) exp(e_i,j / T)``
    Source: Zhang et al. 2018, section 3 (forward attention), https://arxiv.org/abs/1807.06736

    Weights are soft in training and in evaluation, and move on by at most one position a step. Before the first step
    all weight is on the first position. The paper's transition agent, which weighs staying against moving, reads the
    query; a normalizer sees scores alone, so it is not part of this. A step at which nothing that it could reach is
    allowed (a window elsewhere) reads nothing, and the next one starts where it did.

    >>> scores, mask = torch.zeros(1, 2, 3), torch.ones(1, 2, 3, dtype=torch.bool)
    >>> forward = Forward()
    >>> forward(scores, mask, forward.init_carry(mask[:, 0]))[0]
    tensor([[[0.5000, 0.5000, 0.0000],
             [0.2500, 0.5000, 0.2500]]])
    """

    is_distribution = True
    is_recurrent = True

    def __init__(self, temperature: PositiveFloat = 1.0) -> None:
        super().__init__()
        self.temperature = temperature

    def init_carry(self, memory_mask: Tensor) -> Tensor:
        """The logarithm of all weight on the first real position: (b, m) bool -> (b, m)."""
        return torch.where(start_alignment(memory_mask) > 0, 0.0, LOG_ZERO)

    def forward(self, scores: Tensor, allowed_mask: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        """(b, q, m), their mask, and log weights (b, m) -> weights (b, q, m) and the last log weights that read."""
        dtype = at_least_float32(scores.dtype)
        energies = scores.to(dtype) / self.temperature
        log_alignment, weights = carry.to(dtype), []
        # In logarithms: products of many small weights, and the gradients of their inverses, are no numbers.
        for energy, mask in zip(energies.unbind(1), allowed_mask.unbind(1), strict=True):
            reach = torch.logaddexp(log_alignment, F.pad(log_alignment, (1, 0), value=LOG_ZERO)[..., :-1])
            mask = mask & (reach > LOG_ZERO / 2)
            now = (energy + reach).masked_fill(~mask, LOG_ZERO).log_softmax(-1).masked_fill(~mask, LOG_ZERO)
            log_alignment = torch.where(mask.any(-1, keepdim=True), now, log_alignment)
            weights.append(now.exp())
        return torch.stack(weights, 1).to(scores.dtype), log_alignment
