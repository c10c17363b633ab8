"""Several heads: attention side by side, each over its own narrower view of query and memory."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from attnx.attention.attention import Attention
from attnx.attention.memory import without_padding
from attnx.attention.protocols import Memory, Past, Read
from attnx.errors import UserError


class Heads(nn.Module):
    """Split query and memory among heads, let each attend, and join their contexts.

    Formula: ``context = O [c_1; ...; c_h], c_i = attention_i(Q_i q, K_i m, V_i v)``
    Source: Vaswani et al. 2017, section 3.2.2, https://arxiv.org/abs/1706.03762

    Every head has a scorer, a scope and a normaliser of its own, so that any of them may be learned; each sees queries,
    keys and values of the memory's (the values') width divided by the number of heads.

    Args:
        heads: what attends, each for queries and memories of width ``memory_size / heads``.
        query_size: width of the queries.
        memory_size: width of what queries are compared with.
        values_size: width of the values, and of the contexts.
    """

    def __init__(self, heads: Iterable[Attention], query_size: int, memory_size: int, values_size: int) -> None:
        super().__init__()
        self.each = nn.ModuleList(heads)
        self.heads = len(self.each)
        self.query = nn.Linear(query_size, memory_size, bias=False)
        self.keys = nn.Linear(memory_size, memory_size, bias=False)
        self.values = nn.Linear(values_size, values_size, bias=False)
        self.out = nn.Linear(values_size, values_size, bias=False)
        first = self._heads[0]
        self.dropout, self.needs_past = first.dropout, first.needs_past

    @property
    def _heads(self) -> list[Attention]:
        return list(self.each)  # type: ignore[arg-type]

    def remember(self, states: Tensor, present: Tensor | None = None, values: Tensor | None = None) -> Memory:
        """As :meth:`Attention.remember`; keys (b, h, m, k) and values (b, h, m, v / h)."""
        states, present, values = without_padding(states, present, values)
        # The projections have no bias, so that what is absent stays zero.
        mine = zip(self._heads, self._split(self.keys(states)), strict=True)
        keys = torch.stack([head.scorer.keys(projected) for head, projected in mine], dim=1)
        return Memory(keys, torch.stack(self._split(self.values(values)), dim=1), present, lengths=(states.shape[1],))

    def forward(
        self,
        queries: Tensor,
        memory: Memory,
        allowed: Tensor | None = None,
        at: Tensor | None = None,
        past: Past | None = None,
        need_weights: bool = False,
        keep: Tensor | None = None,
    ) -> Read:
        """As :meth:`Attention.forward`; weights, scores, ``keep`` (b, h, q, m) and the past (b, h, m) of every head."""
        reads = [
            head(
                mine,
                memory._replace(keys=memory.keys[:, i], values=memory.values[:, i]),
                allowed,
                at,
                None if past is None else Past(past.last[:, i], past.total[:, i]),
                need_weights,
                None if keep is None else keep[:, i],
            )
            for i, (head, mine) in enumerate(zip(self.each, self._split(self.query(queries)), strict=True))
        ]
        context = self.out(torch.cat([read.context for read in reads], dim=-1))
        penalties = [read.penalty for read in reads if read.penalty is not None]
        penalty = torch.stack(penalties).mean(0) if penalties else None
        if not need_weights:
            return Read(context, penalty=penalty)
        weights = torch.stack([read.weights for read in reads], dim=1)
        return Read(context, weights, torch.stack([read.scores for read in reads], dim=1), penalty)

    def _split(self, projected: Tensor) -> tuple[Tensor, ...]:
        return projected.chunk(self.heads, dim=-1)


def head_width(heads: int, size: int, what: str) -> int:
    """The width of one head.

    Raises:
        UserError: the heads do not divide ``size``.
    """
    if size % heads:
        raise UserError(f"attention.heads={heads} does not divide {what}, {size}; choose another number of heads")
    return size // heads
