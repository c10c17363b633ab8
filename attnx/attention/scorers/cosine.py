"""The scorer ``cosine``."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from attnx.ops import unit_vectors
from attnx.registry import PositiveFloat, register


@register("scorer", "cosine")
class Cosine(nn.Module):
    """The cosine of the angle between query and memory, times a strength.

    Formula: ``score(q, m) = beta q . m / (|q| |m|)``
    Source: Graves et al. 2014, equations 5 and 6, https://arxiv.org/abs/1410.5401

    A cosine lies between -1 and 1, so after a softmax its weights differ by at most exp(2 beta): the strength beta is
    what lets it be sharp. It is one positive number, learned by default. A zero vector scores 0.

    >>> scorer = Cosine(strength=1.0)
    >>> queries, keys = torch.tensor([[3.0, 4.0]]), torch.tensor([[6.0, 8.0]])
    >>> compared = scorer.score(scorer.project_queries(queries), scorer.project_keys(keys))
    >>> round(compared.item(), 5)
    1.0
    """

    requires_equal_dims = True

    def __init__(self, strength: PositiveFloat = 5.0, learned: bool = True) -> None:
        super().__init__()
        # The logarithm is stored so that the strength stays positive.
        self.log_strength = nn.Parameter(torch.tensor(math.log(strength)), requires_grad=learned)

    def project_keys(self, memory: Tensor) -> Tensor:
        """(..., m, d) -> (..., m, d) of length 1."""
        return unit_vectors(memory)

    def project_queries(self, queries: Tensor) -> Tensor:
        """(..., q, d) -> (..., q, d) of length beta."""
        return unit_vectors(queries) * self.log_strength.exp()

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(..., q, d), (..., m, d) -> (..., q, m)."""
        return queries @ keys.mT
