"""The bias ``relative``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.attention.contracts import DistanceTerm
from attnx.registry import PositiveInt, Size, register


@register("bias", "relative")
class Relative(nn.Module):
    """The inner product of the query and a learned vector for each distance, longer distances clipped.

    Formula: ``bias(q, distance) = q . w[clip(distance, -max_distance, max_distance)] / sqrt(d)``
    Source: Shaw et al. 2018, equations 4 and 5, https://arxiv.org/abs/1803.02155

    With ``scorer=scaled`` it makes the paper's scores. The paper also adds a vector for each distance to the values
    (equation 3), which is no term of a score, and is left out. Each head of each layer has its own vectors.

    >>> bias = Relative(query_size=13, max_distance=2)
    >>> bias(torch.ones(2, 3, 13), torch.arange(3)[None, :, None] - torch.arange(5)).shape
    torch.Size([2, 3, 5])
    """

    needs_query = True

    def __init__(self, query_size: Size, max_distance: PositiveInt = 16) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2 * max_distance + 1, query_size) * query_size**-0.5)
        self.max_distance = max_distance

    def forward(self, queries: Tensor, distances: Tensor) -> Tensor:
        """(b, q, query_size), (b or 1, q, m) -> (b, q, m)."""
        longest, products = self.max_distance, self._products(queries)
        index = distances.clamp(-longest, longest) + longest
        rows = products.shape[0]  # not len(), which an exported trace would fix
        return products.gather(-1, index.expand(rows, -1, -1))

    def score_mod(self, queries: Tensor) -> DistanceTerm:
        """The same pair by pair, for FlexAttention."""
        longest, products = self.max_distance, self._products(queries)
        return lambda b, q, distance: products[b, q, distance.clamp(-longest, longest) + longest]

    def _products(self, queries: Tensor) -> Tensor:
        """The term of each distance, (b, q, 2 max_distance + 1)."""
        products: Tensor = queries @ self.weight.T * self.weight.shape[-1] ** -0.5
        return products
