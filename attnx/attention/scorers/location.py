"""The scorer ``location``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.attention.scorers.additive import Additive
from attnx.attention.types import AttentionHistory
from attnx.errors import UserError, reject_duplicates
from attnx.registry import NonNegativeInt, Size, Width, register


@register("scorer", "location")
class Location(nn.Module):
    """``additive``, which also knows where the step before read: a convolution over its weights.

    Formula: ``score(q, m) = v . tanh(W q + U m + L f_m), f = F * a_{t-1}``
    Source: Chorowski et al. 2015, equations 8 and 9, https://arxiv.org/abs/1506.07503; of the sum of earlier weights:
        Shen et al. 2018, section 2.2, https://arxiv.org/abs/1712.05884

    ``filters`` is the number of the convolution's filters, each over 2 * ``kernel_radius`` + 1 positions. It ``reads``
    the previous weights, the cumulative ones (the sum of those of all earlier steps), or both side by side. Before the
    first step nothing was read, and f is zeros. It makes the decoder run step by step. The papers' bias b is left out.

    >>> scorer = Location(query_size=13, memory_size=26, hidden_size=7)
    >>> queries, keys = scorer.project_queries(torch.ones(2, 1, 13)), scorer.project_keys(torch.ones(2, 5, 26))
    >>> scorer.score(queries, keys, AttentionHistory(torch.zeros(2, 5), torch.zeros(2, 5))).shape
    torch.Size([2, 1, 5])
    """

    requires_equal_dims = False
    has_key_parameters = True
    needs_history = True
    is_positional = True

    def __init__(
        self,
        query_size: Size,
        memory_size: Size,
        hidden_size: Width = 128,
        filters: Width = 10,
        kernel_radius: NonNegativeInt = 5,
        reads: Sequence[Literal["previous", "cumulative"]] = ("previous",),
    ) -> None:
        super().__init__()
        reject_duplicates("scorer.reads", reads, "kind of weights")
        if not reads:
            raise UserError("scorer.reads=[]: name previous, cumulative or both")
        self.reads = tuple(reads)
        self.additive = Additive(query_size, memory_size, hidden_size)
        self.near = nn.Conv1d(len(reads), filters, 2 * kernel_radius + 1, padding=kernel_radius, bias=False)
        self.location = nn.Linear(filters, hidden_size, bias=False)

    def project_keys(self, memory: Tensor) -> Tensor:
        """(..., m, memory_size) -> (..., m, hidden)."""
        return self.additive.project_keys(memory)

    def project_queries(self, queries: Tensor) -> Tensor:
        """(..., q, query_size) -> (..., q, hidden)."""
        return self.additive.project_queries(queries)

    def score(self, queries: Tensor, keys: Tensor, history: AttentionHistory) -> Tensor:
        """(b, q, hidden), (b, m, hidden) and the history -> (b, q, m)."""
        # One zero more at the end, and its output less: a convolution refuses a memory that is still empty.
        weights = torch.stack([getattr(history, kind) for kind in self.reads], dim=1).to(keys.dtype)
        near = self.near(F.pad(weights, (0, 1)))[..., :-1]
        return self.additive.score(queries, keys + self.location(near.mT))
