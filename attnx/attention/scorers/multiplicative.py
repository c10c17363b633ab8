"""The scorer ``multiplicative``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.registry import Size, register


@register("scorer", "multiplicative")
class Multiplicative(nn.Module):
    """A bilinear form between query and memory, the scorer "general" of Luong et al.

    Formula: ``score(q, m) = q . W m``
    Source: Luong et al. 2015, equation 8 (general), https://arxiv.org/abs/1508.04025

    Query and memory may have any widths; with equal widths and W the identity it is ``dot``.

    >>> import torch
    >>> scorer = Multiplicative(query_size=13, memory_size=26)
    >>> scorer.score(scorer.project_queries(torch.ones(2, 3, 13)), scorer.project_keys(torch.ones(2, 5, 26))).shape
    torch.Size([2, 3, 5])
    """

    requires_equal_dims = False
    has_key_parameters = True

    def __init__(self, query_size: Size, memory_size: Size) -> None:
        super().__init__()
        self.memory = nn.Linear(memory_size, query_size, bias=False)

    def project_keys(self, memory: Tensor) -> Tensor:
        """(..., m, memory_size) -> (..., m, query_size)."""
        projected: Tensor = self.memory(memory)
        return projected

    def project_queries(self, queries: Tensor) -> Tensor:
        """(..., q, query_size), unchanged."""
        return queries

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(..., q, query_size), (..., m, query_size) -> (..., q, m)."""
        return queries @ keys.mT
