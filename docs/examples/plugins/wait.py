"""The scope ``wait``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.attention import ScopeMask
from attnx.registry import PositiveInt, register


@register("scope", "wait")
class Wait(nn.Module):
    """Write while the source still comes in: step t may read its first t + k positions.

    Formula: ``mask(t, s) = s < t + k``
    Source: Ma et al. 2019, section 3 (wait-k), https://arxiv.org/abs/1810.08398

    Steps and positions count from 0.

    >>> Wait(k=2)(torch.zeros(1, 2, 13), torch.arange(2), torch.ones(1, 1, 5, dtype=torch.bool)).allowed_mask.int()
    tensor([[[1, 1, 0, 0, 0],
             [1, 1, 1, 0, 0]]], dtype=torch.int32)
    """

    sources = ("encoder",)
    include_self = False

    def __init__(self, k: PositiveInt = 3) -> None:
        super().__init__()
        self.k = k

    def forward(self, queries: Tensor, steps: Tensor, memory_mask: Tensor) -> ScopeMask:
        """(b, q, query_size), steps, (b, 1 or q, m) -> the mask, its ``allowed_mask`` (b, q, m)."""
        position = torch.arange(memory_mask.shape[-1], device=memory_mask.device)
        arrived = position < steps.expand(queries.shape[:2])[..., None] + self.k
        return ScopeMask(arrived & memory_mask)
