"""The scorer ``coverage``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.attention.scorers.additive import Additive
from attnx.attention.types import AttentionHistory
from attnx.registry import NonNegativeFloat, Size, Width, register


@register("scorer", "coverage")
class Coverage(nn.Module):
    """``additive``, which also knows how much each position was read so far, and is penalized for reading it again.

    Formula: ``score(q, m) = v . tanh(W q + U m + w c_m), c = sum of earlier weights; loss + k sum_m min(a_m, c_m)``
    Source: See et al. 2017, equations 10 to 13, https://arxiv.org/abs/1704.04368

    ``penalty`` is the factor k of the loss, summed over the target's symbols; 0 leaves it out. Validation losses and
    perplexities do not hold it. It makes the decoder run step by step.

    >>> scorer = Coverage(query_size=13, memory_size=26, hidden_size=7)
    >>> queries, keys = scorer.project_queries(torch.ones(2, 1, 13)), scorer.project_keys(torch.ones(2, 5, 26))
    >>> scorer.score(queries, keys, AttentionHistory(torch.zeros(2, 5), torch.ones(2, 5))).shape
    torch.Size([2, 1, 5])
    """

    requires_equal_dims = False
    has_key_parameters = True
    needs_history = True

    def __init__(
        self, query_size: Size, memory_size: Size, hidden_size: Width = 128, penalty: NonNegativeFloat = 1.0
    ) -> None:
        super().__init__()
        self.additive = Additive(query_size, memory_size, hidden_size)
        self.covered = nn.Parameter(torch.empty(hidden_size).uniform_(-1, 1) / hidden_size**0.5)
        self.factor = penalty

    def project_keys(self, memory: Tensor) -> Tensor:
        """(..., m, memory_size) -> (..., m, hidden)."""
        return self.additive.project_keys(memory)

    def project_queries(self, queries: Tensor) -> Tensor:
        """(..., q, query_size) -> (..., q, hidden)."""
        return self.additive.project_queries(queries)

    def score(self, queries: Tensor, keys: Tensor, history: AttentionHistory) -> Tensor:
        """(b, q, hidden), (b, m, hidden) and the history -> (b, q, m)."""
        return self.additive.score(queries, keys + (history.cumulative[..., None] * self.covered).to(keys.dtype))

    def penalty(self, weights: Tensor, history: AttentionHistory) -> Tensor:
        """(b, q, m) weights and the history -> (b, q), the overlap of what is read with what was read before."""
        return self.factor * torch.minimum(weights, history.cumulative[..., None, :]).sum(-1)
