"""The query input ``current_state``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.attention.types import QueryContext
from attnx.registry import Size, register


@register("query", "current_state")
class CurrentState(nn.Module):
    """The decoder's top state after its cell ran at this step.

    Formula: ``h_t``
    Source: Luong et al. 2015, section 3, https://arxiv.org/abs/1508.04025

    It is not known before the cell runs, so its context cannot enter the same step's cell (``model.feed=now``).

    >>> import torch
    >>> step = QueryContext(**{"token": torch.zeros(2, 3, 5), "state": torch.ones(2, 3, 13)})
    >>> CurrentState(state_size=13)(step).shape
    torch.Size([2, 3, 13])
    """

    needs = "state"

    def __init__(self, state_size: Size) -> None:
        super().__init__()
        self.size = state_size

    def forward(self, step: QueryContext) -> Tensor:
        """Pick it from the step: -> (b, q, state_size)."""
        assert step.state is not None, "the plan ran attention before what its query needs"
        return step.state
