"""The scorer ``additive``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.registry import Size, Width, register


@register("scorer", "additive")
class Additive(nn.Module):
    """A one-layer network over the sum of projected query and projected memory.

    Formula: ``score(q, m) = v . tanh(W q + U m)``
    Source: Bahdanau et al. 2015, appendix A.1.2, https://arxiv.org/abs/1409.0473

    Query and memory may have any widths. The definition below holds one value per query, memory position and hidden
    unit, so its memory grows with q * m * hidden.

    >>> scorer = Additive(query_size=13, memory_size=26, hidden_size=7)
    >>> scorer.score(scorer.project_queries(torch.ones(2, 3, 13)), scorer.project_keys(torch.ones(2, 5, 26))).shape
    torch.Size([2, 3, 5])
    """

    requires_equal_dims = False
    has_key_parameters = True

    def __init__(self, query_size: Size, memory_size: Size, hidden_size: Width = 128) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.query = nn.Linear(query_size, hidden_size, bias=False)
        self.memory = nn.Linear(memory_size, hidden_size, bias=False)
        # As a Linear(hidden, 1) would start.
        self.v = nn.Parameter(torch.empty(hidden_size).uniform_(-1, 1) / hidden_size**0.5)

    def project_keys(self, memory: Tensor) -> Tensor:
        """(..., m, memory_size) -> (..., m, hidden)."""
        projected: Tensor = self.memory(memory)
        return projected

    def project_queries(self, queries: Tensor) -> Tensor:
        """(..., q, query_size) -> (..., q, hidden)."""
        projected: Tensor = self.query(queries)
        return projected

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(..., q, hidden), (..., m, hidden) -> (..., q, m)."""
        return torch.tanh(queries[..., :, None, :] + keys[..., None, :, :]) @ self.v
