"""The scorer ``concat``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.registry import Size, register


@register("scorer", "concat")
class Concat(nn.Module):
    """One linear layer over memory and query side by side: no hidden layer, no tanh.

    Formula: ``score(q, m) = w . [m; q] = w_m . m + w_q . q``
    Source: the linear part of Luong et al. 2015, equation 8 (concat), https://arxiv.org/abs/1508.04025

    The query adds the same number to every position, which a softmax cancels: under ``global`` the weights do not
    depend on the query at all. It is the floor that a scorer with a hidden layer is compared with. Luong's concat
    applies a tanh and a vector to such a layer: that is ``additive``.

    >>> import torch
    >>> scorer = Concat(query_size=13, memory_size=26)
    >>> scorer.score(scorer.project_queries(torch.ones(2, 3, 13)), scorer.project_keys(torch.ones(2, 5, 26))).shape
    torch.Size([2, 3, 5])
    """

    requires_equal_dims = False
    has_key_parameters = True

    def __init__(self, query_size: Size, memory_size: Size) -> None:
        super().__init__()
        self.query = nn.Linear(query_size, 1, bias=False)
        self.memory = nn.Linear(memory_size, 1, bias=False)

    def project_keys(self, memory: Tensor) -> Tensor:
        """(..., m, memory_size) -> (..., m, 1)."""
        projected: Tensor = self.memory(memory)
        return projected

    def project_queries(self, queries: Tensor) -> Tensor:
        """(..., q, query_size) -> (..., q, 1)."""
        projected: Tensor = self.query(queries)
        return projected

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(..., q, 1), (..., m, 1) -> (..., q, m)."""
        return queries + keys.mT
