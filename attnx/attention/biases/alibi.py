"""The bias ``alibi``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.attention.contracts import DistanceTerm
from attnx.registry import Size, register


@register("bias", "alibi")
class Alibi(nn.Module):
    """A penalty proportional to the distance, with a slope for each head.

    Formula: ``bias(distance) = -|distance| 2^(-8 (head + 1) / heads), head = 0 ... heads - 1``
    Source: Press et al. 2022, section 3, https://arxiv.org/abs/2108.12409

    It has no parameters. The paper's models are causal, and their distances are never negative; here later positions
    are penalized like earlier ones. One head alone has the smallest slope, 1/256.

    >>> import torch
    >>> Alibi(head=0, heads=8)(torch.zeros(1, 1, 13), torch.tensor([[[2, 1, 0, -1]]]))
    tensor([[[-1.0000, -0.5000, -0.0000, -0.5000]]])
    """

    needs_query = False

    def __init__(self, head: Size, heads: Size) -> None:
        super().__init__()
        self.slope: float = 2.0 ** (-8 * (head + 1) / heads)

    def forward(self, queries: Tensor, distances: Tensor) -> Tensor:
        """(b, q, query_size), (b or 1, q, m) -> (b or 1, q, m)."""
        return -self.slope * distances.abs().to(queries.dtype)

    def score_mod(self, queries: Tensor) -> DistanceTerm:
        """The same pair by pair, for FlexAttention."""
        slope = torch.full((), self.slope, dtype=queries.dtype, device=queries.device)
        return lambda _b, _q, distance: -slope * distance.abs()
