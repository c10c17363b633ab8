"""The scorer ``scaled``."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from attnx.registry import Size, register


@register("scorer", "scaled")
class Scaled(nn.Module):
    """The inner product of query and memory, scaled so that it does not grow with their width d.

    Formula: ``score(q, m) = g q . m;  sqrt: g = 1/sqrt(d), dimension: g = 1/d, learned: g starts at 1/sqrt(d)``
    Source: Vaswani et al. 2017, equation 1, https://arxiv.org/abs/1706.03762

    ``sqrt`` keeps the variance of the scores at 1 for independent inputs of variance 1; ``dimension`` is the mean of
    the products; ``learned`` trains the scale as one number.

    >>> scorer = Scaled(memory_size=16)
    >>> scorer.score(scorer.project_queries(torch.ones(1, 1, 16)), torch.ones(1, 2, 16))
    tensor([[[4., 4.]]])
    """

    requires_equal_dims = True

    def __init__(self, memory_size: Size, scale: Literal["sqrt", "dimension", "learned"] = "sqrt") -> None:
        super().__init__()
        start = memory_size**-1.0 if scale == "dimension" else memory_size**-0.5
        self.scale = nn.Parameter(torch.tensor(start)) if scale == "learned" else start

    def project_keys(self, memory: Tensor) -> Tensor:
        """(..., m, d), unchanged."""
        return memory

    def project_queries(self, queries: Tensor) -> Tensor:
        """(..., q, d) -> (..., q, d), scaled here because there are fewer queries than scores."""
        return queries * self.scale

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(..., q, d), (..., m, d) -> (..., q, m)."""
        return queries @ keys.mT
