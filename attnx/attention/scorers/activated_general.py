"""The scorer ``activated_general``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from attnx.registry import Size, register

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "selu": nn.functional.selu,
}


@register("scorer", "activated_general")
class ActivatedGeneral(nn.Module):
    """A bilinear form between query and memory through an activation.

    Formula: ``score(q, m) = activation(m . W q + b)``
    Source: Brauwers and Frasincar 2022, section 3.1.1 (activated general), https://arxiv.org/abs/2203.14263, after Ma
        et al. 2017, https://arxiv.org/abs/1709.00893

    With ``tanh`` scores lie between -1 and 1, so after a softmax no weight is more than exp(2) = 7.4 times another; a
    lower ``normalizer.temperature`` makes weights sharper.

    >>> scorer = ActivatedGeneral(query_size=13, memory_size=26)
    >>> scorer.score(scorer.project_queries(torch.ones(2, 3, 13)), scorer.project_keys(torch.ones(2, 5, 26))).shape
    torch.Size([2, 3, 5])
    """

    requires_equal_dims = False

    def __init__(
        self, query_size: Size, memory_size: Size, activation: Literal["tanh", "sigmoid", "selu"] = "tanh"
    ) -> None:
        super().__init__()
        self.query = nn.Linear(query_size, memory_size, bias=False)
        self.bias = nn.Parameter(torch.zeros(()))
        self.activation = ACTIVATIONS[activation]

    def project_keys(self, memory: Tensor) -> Tensor:
        """(..., m, memory_size), unchanged."""
        return memory

    def project_queries(self, queries: Tensor) -> Tensor:
        """(..., q, query_size) -> (..., q, memory_size)."""
        projected: Tensor = self.query(queries)
        return projected

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(..., q, memory_size), (..., m, memory_size) -> (..., q, m)."""
        return self.activation(queries @ keys.mT + self.bias)
