"""The scorer ``gaussian``, an example of a plug-in: this file is all there is to it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from attnx.registry import PositiveFloat, Size, register


@register("scorer", "gaussian")
class Gaussian(nn.Module):
    """The logarithm of a Gaussian around the projected query: the nearer a memory position, the more relevant.

    Formula: ``score(q, m) = -|W q - m|^2 / (2 sigma^2)``
    Source: Kim et al. 2021 (L2 attention, 2 sigma^2 = sqrt(d)), https://arxiv.org/abs/2006.04710; Tsai et al. 2019
        (the RBF kernel), https://arxiv.org/abs/1908.11775

    Unlike an inner product it gives a long memory vector no advantage: after a softmax it is ``multiplicative`` less
    ``|m|^2 / 2``, over sigma^2. W maps a query of any width to the memory's. Sigma is one positive number, learned
    by default.

    >>> scorer = Gaussian(query_size=2, memory_size=2)
    >>> _ = torch.nn.init.eye_(scorer.query.weight)
    >>> near = scorer.score(scorer.project_queries(torch.tensor([[3.0, 4.0]])), torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    >>> [round(score, 5) for score in near[0].tolist()]
    [0.0, -12.5]
    """

    requires_equal_dims = False

    def __init__(self, query_size: Size, memory_size: Size, sigma: PositiveFloat = 1.0, learned: bool = True) -> None:
        super().__init__()
        self.query = nn.Linear(query_size, memory_size, bias=False)
        # The logarithm is stored so that sigma stays positive.
        self.log_sigma = nn.Parameter(torch.tensor(math.log(sigma)), requires_grad=learned)

    def project_keys(self, memory: Tensor) -> Tensor:
        """(..., m, memory_size), unchanged."""
        return memory

    def project_queries(self, queries: Tensor) -> Tensor:
        """(..., q, query_size) -> (..., q, memory_size)."""
        projected: Tensor = self.query(queries)
        return projected

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(..., q, memory_size), (..., m, memory_size) -> (..., q, m)."""
        # |q - m|^2 multiplied out, so that no (q, m, memory_size) tensor is made.
        lengths = queries.square().sum(-1)[..., :, None] + keys.square().sum(-1)[..., None, :]
        return (queries @ keys.mT - lengths / 2) * torch.exp(-2 * self.log_sigma)
