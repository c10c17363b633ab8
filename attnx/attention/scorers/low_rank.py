"""The scorer ``low_rank``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.registry import Size, Width, register


@register("scorer", "low_rank")
class LowRank(nn.Module):
    """A bilinear form whose matrix has a low rank: the inner product of two narrow projections.

    Formula: ``score(q, m) = A q . B m = q . A' B m``
    Source: Kim et al. 2017, equation 2, https://arxiv.org/abs/1610.04325

    ``rank`` is the width of both projections. It has rank * (query + memory) parameters, ``multiplicative`` has query *
    memory; a rank of the narrower width or more can represent every matrix of ``multiplicative``.

    >>> import torch
    >>> scorer = LowRank(query_size=13, memory_size=26, rank=3)
    >>> scorer.score(scorer.project_queries(torch.ones(2, 3, 13)), scorer.project_keys(torch.ones(2, 5, 26))).shape
    torch.Size([2, 3, 5])
    """

    requires_equal_dims = False
    has_key_parameters = True

    def __init__(self, query_size: Size, memory_size: Size, rank: Width = 32) -> None:
        super().__init__()
        self.query = nn.Linear(query_size, rank, bias=False)
        self.memory = nn.Linear(memory_size, rank, bias=False)

    def project_keys(self, memory: Tensor) -> Tensor:
        """(..., m, memory_size) -> (..., m, rank)."""
        projected: Tensor = self.memory(memory)
        return projected

    def project_queries(self, queries: Tensor) -> Tensor:
        """(..., q, query_size) -> (..., q, rank)."""
        projected: Tensor = self.query(queries)
        return projected

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(..., q, rank), (..., m, rank) -> (..., q, m)."""
        return queries @ keys.mT
