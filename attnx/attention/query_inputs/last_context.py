"""The query input ``last_context``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.attention.types import QueryContext
from attnx.registry import Size, register


@register("query", "last_context")
class LastContext(nn.Module):
    """The context that was read at the last step.

    Formula: ``c_{t-1}``
    Source: Luong et al. 2015, section 3.3 (there it enters the cell, here the query), https://arxiv.org/abs/1508.04025

    It is zeros at the first step, and makes the decoder run step by step.

    >>> import torch
    >>> step = QueryContext(**{"token": torch.zeros(2, 3, 5), "context": torch.ones(2, 3, 13)})
    >>> LastContext(context_size=13)(step).shape
    torch.Size([2, 3, 13])
    """

    needs = "context"

    def __init__(self, context_size: Size) -> None:
        super().__init__()
        self.size = context_size

    def forward(self, step: QueryContext) -> Tensor:
        """Pick it from the step: -> (b, q, context_size)."""
        assert step.context is not None, "the plan ran attention before what its query needs"
        return step.context
