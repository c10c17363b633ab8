"""The query input ``token``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.attention.types import QueryContext
from attnx.registry import Size, register


@register("query", "token")
class Token(nn.Module):
    """The embedding of the token that the decoder reads at this step.

    Formula: ``e(y_{t-1})``
    Source: Hieber et al. 2017 (the previous word as part of the query), https://arxiv.org/abs/1712.05690

    Under teacher forcing it is known for all steps at once, so attention can run before the decoder does.

    >>> import torch
    >>> Token(token_size=13)(QueryContext(token=torch.ones(2, 3, 13))).shape
    torch.Size([2, 3, 13])
    """

    needs = "token"

    def __init__(self, token_size: Size) -> None:
        super().__init__()
        self.size = token_size

    def forward(self, step: QueryContext) -> Tensor:
        """Pick it from the step: -> (b, q, token_size)."""
        return step.token
