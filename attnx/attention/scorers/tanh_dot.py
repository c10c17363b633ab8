"""The scorer ``tanh_dot``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.registry import Size, register


@register("scorer", "tanh_dot")
class TanhDot(nn.Module):
    """The inner product of the query with a hidden layer over the memory.

    Formula: ``score(q, m) = q . tanh(W m + b)``
    Source: Yang et al. 2016, equations 5 and 6, https://aclanthology.org/N16-1174; without b: Lin et al. 2017,
        equations 5 and 6, https://arxiv.org/abs/1703.03130

    Both papers have a learned query, ``query=self_attentive``. Query and memory may have any widths; the hidden layer
    is as wide as the query.

    >>> scorer = TanhDot(query_size=13, memory_size=26)
    >>> scorer.score(scorer.project_queries(torch.ones(2, 3, 13)), scorer.project_keys(torch.ones(2, 5, 26))).shape
    torch.Size([2, 3, 5])
    """

    requires_equal_dims = False
    has_key_parameters = True

    def __init__(self, query_size: Size, memory_size: Size, bias: bool = True) -> None:
        super().__init__()
        self.memory = nn.Linear(memory_size, query_size, bias=bias)

    def project_keys(self, memory: Tensor) -> Tensor:
        """(..., m, memory_size) -> (..., m, query_size)."""
        return torch.tanh(self.memory(memory))

    def project_queries(self, queries: Tensor) -> Tensor:
        """(..., q, query_size), unchanged."""
        return queries

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(..., q, query_size), (..., m, query_size) -> (..., q, m)."""
        return queries @ keys.mT
