"""The query input ``previous_state``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.attention.types import QueryContext
from attnx.registry import Size, register


@register("query", "previous_state")
class PreviousState(nn.Module):
    """The decoder's top state before its cell runs at this step.

    Formula: ``h_{t-1}``
    Source: Bahdanau et al. 2015, equation 6, https://arxiv.org/abs/1409.0473

    At the first step it is the state that the bridge made.

    >>> import torch
    >>> step = QueryContext(**{"token": torch.zeros(2, 3, 5), "prev_state": torch.ones(2, 3, 13)})
    >>> PreviousState(state_size=13)(step).shape
    torch.Size([2, 3, 13])
    """

    needs = "prev_state"

    def __init__(self, state_size: Size) -> None:
        super().__init__()
        self.size = state_size

    def forward(self, step: QueryContext) -> Tensor:
        """Pick it from the step: -> (b, q, state_size)."""
        assert step.prev_state is not None, "the plan ran attention before what its query needs"
        return step.prev_state
