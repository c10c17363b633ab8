"""No attention: the same context at every step, the baseline that attention is compared with."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.attention.types import AttentionOutput, Memory
from attnx.registry import register


@register("attention", "none")
class NoAttention(nn.Module):
    """Give the decoder the encoder's last state as a constant context at every step.

    Formula: ``c_t = h_S for every t``
    Source: Cho et al. 2014, section 2.2, https://arxiv.org/abs/1406.1078

    It has no scorer, scope, query or normalizer, and no weights to draw.

    >>> import torch
    >>> attention = NoAttention()
    >>> attention(torch.ones(2, 3, 0), attention.make_memory(torch.ones(2, 1, 26))).context.shape
    torch.Size([2, 3, 26])
    """

    dropout = 0.0
    needs_history = False
    is_distribution = False
    num_heads = 1

    def make_memory(self, states: Tensor, memory_mask: Tensor | None = None, values: Tensor | None = None) -> Memory:
        """(b, 1, v), the last state as a memory of one position."""
        mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        return Memory(states, states, mask, source_sizes=(states.shape[1],))

    def init_history(self, memory: Memory) -> None:
        """Nothing is remembered."""

    def forward(self, queries: Tensor, memory: Memory, **options: object) -> AttentionOutput:
        """(b, q, anything) -> contexts (b, q, v), all the same; the options of :class:`Attention` change nothing."""
        return AttentionOutput(memory.values.expand(-1, queries.shape[1], -1))
