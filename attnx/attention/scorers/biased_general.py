"""The scorer ``biased_general``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.registry import Size, register


@register("scorer", "biased_general")
class BiasedGeneral(nn.Module):
    """A bilinear form between query and memory, and a preference for some memories, whatever the query.

    Formula: ``score(q, m) = m . (W q + b)``
    Source: Brauwers and Frasincar 2022, section 3.1.1 (biased general), https://arxiv.org/abs/2203.14263, after Sordoni
        et al. 2016, https://arxiv.org/abs/1606.02245

    The term ``m . b`` depends on the memory alone, so a softmax does not cancel it. With b = 0 it is
    ``multiplicative``, whose matrix maps the memory instead.

    >>> import torch
    >>> scorer = BiasedGeneral(query_size=13, memory_size=26)
    >>> scorer.score(scorer.project_queries(torch.ones(2, 3, 13)), scorer.project_keys(torch.ones(2, 5, 26))).shape
    torch.Size([2, 3, 5])
    """

    requires_equal_dims = False

    def __init__(self, query_size: Size, memory_size: Size) -> None:
        super().__init__()
        self.query = nn.Linear(query_size, memory_size)

    def project_keys(self, memory: Tensor) -> Tensor:
        """(..., m, memory_size), unchanged."""
        return memory

    def project_queries(self, queries: Tensor) -> Tensor:
        """(..., q, query_size) -> (..., q, memory_size)."""
        projected: Tensor = self.query(queries)
        return projected

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(..., q, memory_size), (..., m, memory_size) -> (..., q, m)."""
        return queries @ keys.mT
