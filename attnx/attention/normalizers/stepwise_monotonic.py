"""The normalizer ``stepwise_monotonic``."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.ops import choice_probabilities, start_alignment
from attnx.registry import NonNegativeFloat, PositiveFloat, register


@register("normalizer", "stepwise_monotonic")
class StepwiseMonotonic(nn.Module):
    """Each step reads the position that the step before read, or the next one: none is skipped.

    Formula: ``a_i,m = p_i,m a_i-1,m + (1 - p_i,m-1) a_i-1,m-1, p_i,m = sigmoid(e_i,m / T + r), the probability to
        stay``; evaluation: p is rounded to 0 or 1
    Source: He et al. 2019, section 3 (stepwise monotonic attention), https://arxiv.org/abs/1906.00672

    Before the first step the alignment is at the first position. The last allowed position is never left, and a
    forbidden one is not stayed at. It suits a target that is longer than the memory, as in speech synthesis: n steps
    reach at most position n. The ``noise``, a standard deviation, is added in training. The scalar r is learned and
    starts at ``bias``: at scores near 0 a position is read for 1 + exp(bias) steps.

    >>> scores, mask = torch.tensor([[[9.0, 0.0, 0.0], [-9.0, 0.0, 0.0]]]), torch.ones(1, 2, 3, dtype=torch.bool)
    >>> stepwise = StepwiseMonotonic().eval()
    >>> stepwise(scores, mask, stepwise.init_carry(mask[:, 0]))[0]
    tensor([[[1., 0., 0.],
             [0., 1., 0.]]])
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
        """(b, q, m), their mask, and the last alignment (b, m) -> weights (b, q, m) and the last alignment."""
        energies = scores / self.temperature + self.bias
        stay = choice_probabilities(energies, allowed_mask, self.noise, is_hard=not self.training)
        is_last = allowed_mask & (allowed_mask.long().flip(-1).cumsum(-1).flip(-1) == 1)
        stay = stay.masked_fill(is_last, 1.0)
        move = F.pad(1 - stay, (1, 0))[..., :-1]
        alignment, alignments = carry.to(stay.dtype), []
        for stay_here, move_here in zip(stay.unbind(1), move.unbind(1), strict=True):
            alignment = stay_here * alignment + move_here * F.pad(alignment, (1, 0))[..., :-1]
            alignments.append(alignment)
        weights = torch.stack(alignments, 1).masked_fill(~allowed_mask, 0.0)
        return weights.to(scores.dtype), alignment
