"""The scorer ``dot``."""

from __future__ import annotations

from torch import Tensor, nn

from attnx.registry import register


@register("scorer", "dot")
class Dot(nn.Module):
    """The inner product of query and memory.

    Formula: ``score(q, m) = q . m``
    Source: Luong et al. 2015, equation 8 (dot), https://arxiv.org/abs/1508.04025

    It has no parameters and needs one width for both; its scores grow with that width, see ``scaled``.

    >>> import torch
    >>> Dot().score(torch.ones(2, 3, 13), torch.ones(2, 5, 13))[0, 0]
    tensor([13., 13., 13., 13., 13.])
    """

    requires_equal_dims = True

    def project_keys(self, memory: Tensor) -> Tensor:
        """(..., m, d), unchanged."""
        return memory

    def project_queries(self, queries: Tensor) -> Tensor:
        """(..., q, d), unchanged."""
        return queries

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(..., q, d), (..., m, d) -> (..., q, m)."""
        return queries @ keys.mT
