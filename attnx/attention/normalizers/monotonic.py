"""The normalizer ``monotonic``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.ops import choice_probabilities, hard_monotonic_alignment, monotonic_alignment, start_alignment
from attnx.registry import NonNegativeFloat, PositiveFloat, register


@register("normalizer", "monotonic")
class Monotonic(nn.Module):
    """Each step moves on from the position that the step before read, and stops at the next one that scores high.

    Formula: ``a_i,m = p_i,m q_i,m, q_i,m = (1 - p_i,m-1) q_i,m-1 + a_i-1,m, p_i,m = sigmoid(e_i,m / T + r)``;
        evaluation: p is rounded to 0 or 1
    Source: Raffel et al. 2017, equations 11 to 14, https://arxiv.org/abs/1704.00784

    Training computes the probability that step i reads position m, by an exact parallel scan. Evaluation reads one
    position: the first with p >= 1/2 from the last read one on; if there is none, this step and all later ones read
    nothing. Both start at the first position. In training the ``noise``, a standard deviation, drives p to 0 or 1. The
    scalar r is learned and starts at ``bias``: at scores near 0 a step moves by exp(-bias) positions, so that a memory
    which is much longer than the target needs a negative one.

    >>> scores, mask = torch.tensor([[[9.0, 9.0, -9.0, 9.0], [-9.0, -9.0, 9.0, 9.0]]]), torch.tensor([[[True] * 4] * 2])
    >>> monotonic = Monotonic().eval()
    >>> monotonic(scores, mask, monotonic.init_carry(mask[:, 0]))[0]
    tensor([[[1., 0., 0., 0.],
             [0., 0., 1., 0.]]])
    """

    is_distribution = False
    is_recurrent = True
    is_monotonic = True

    def __init__(self, noise: NonNegativeFloat = 1.0, bias: float = 0.0, temperature: PositiveFloat = 1.0) -> None:
        super().__init__()
        self.noise, self.temperature = noise, temperature
        self.bias = nn.Parameter(torch.tensor(float(bias)))

    def init_carry(self, memory_mask: Tensor) -> Tensor:
        """The first real position: (b, m) bool -> (b, m)."""
        return start_alignment(memory_mask)

    def forward(self, scores: Tensor, allowed_mask: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        """(b, q, m), their mask, and the last alignment (b, m) -> weights (b, q, m) and the last of them."""
        energies = scores / self.temperature + self.bias
        stop = choice_probabilities(energies, allowed_mask, self.noise, is_hard=not self.training)
        weights = monotonic_alignment(stop, carry) if self.training else hard_monotonic_alignment(stop, carry)
        return weights.to(scores.dtype), weights[:, -1]
