"""The query input ``part_of_state``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.attention import QueryContext
from attnx.registry import Probability, Size, register


@register("query", "part_of_state")
class PartOfState(nn.Module):
    """The first units of the decoder's current state; the other units only predict.

    Formula: ``h_t[:share d]``
    Source: the split of a state in Daniluk et al. 2017, https://arxiv.org/abs/1702.04521

    >>> import torch
    >>> PartOfState(state_size=13)(QueryContext(torch.zeros(2, 3, 5), state=torch.ones(2, 3, 13))).shape
    torch.Size([2, 3, 6])
    """

    needs = "state"

    def __init__(self, state_size: Size, share: Probability = 0.5) -> None:
        super().__init__()
        self.size = max(1, int(share * state_size))

    def forward(self, step: QueryContext) -> Tensor:
        """Pick it from the step: -> (b, q, size)."""
        assert step.state is not None, "the plan ran attention before what its query needs"
        return step.state[..., : self.size]
