"""The query input ``self_attentive``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.attention.types import QueryContext
from attnx.registry import NonNegativeFloat, PositiveInt, register


@register("query", "self_attentive")
class SelfAttentive(nn.Module):
    """A learned query, the same for every source and every step: the memory alone decides what is read.

    Formula: ``q = w``; in a classifier r of them, ``q_i = w_i``, and ``penalty ||A A^T - I||_F^2`` joins the loss, A
        the weights of the r reads
    Source: Lin et al. 2017, equations 5, 6 and 8, https://arxiv.org/abs/1703.03130

    With ``scorer=tanh_dot`` these are the paper's weights: w_i is row i of its W_s2, ``size`` is d_a and ``rows`` its
    number of hops r, whose contexts are side by side. The penalty makes rows read different positions.

    >>> query = SelfAttentive(size=13)
    >>> query(QueryContext(token=torch.zeros(2, 3, 5))).shape
    torch.Size([2, 3, 13])
    >>> SelfAttentive(rows=2, penalty=0.5).penalty(torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]))
    tensor([[0.5000, 0.5000]])
    """

    needs = "nothing"
    for_models = ("rows", "penalty")

    def __init__(self, size: PositiveInt = 64, rows: PositiveInt = 1, penalty: NonNegativeFloat = 0.0) -> None:
        super().__init__()
        self.size, self.rows, self.penalty_weight = size, rows, penalty
        self.has_penalty = penalty > 0
        self.vectors = nn.Parameter(torch.randn(rows, size) / size**0.5)

    def forward(self, step: QueryContext) -> Tensor:
        """The query at each step, or of several rows one at each: -> (b, q, size)."""
        rows, steps = step.token.shape[:2]
        return self.vectors.expand(rows, steps, -1)

    def penalty(self, weights: Tensor) -> Tensor:
        """Weights (..., r, m) of the reads of a source -> the term (..., r) of each row in the loss."""
        identity = torch.eye(weights.shape[-2], dtype=weights.dtype, device=weights.device)
        return self.penalty_weight * (weights @ weights.mT - identity).square().sum(-1)
