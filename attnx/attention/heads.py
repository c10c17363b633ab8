"""Several heads: attention side by side, each over its own narrower view of query and memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from attnx.attention.attention import Attention
from attnx.attention.input_errors import check_query, check_states
from attnx.attention.kernel_call import read_by_kernel
from attnx.attention.memory import zero_padding
from attnx.attention.protocols import AttentionHistory, AttentionInputs, AttentionOutput, Memory
from attnx.errors import UserError
from attnx.ops import apply_rope


class MultiHeadAttention(nn.Module):
    """Split query and memory among heads, let each attend, and join their contexts.

    Formula: ``context = O [c_1; ...; c_h], c_i = attention_i(Q_i q, K_i m, V_i v)``
    Source: Vaswani et al. 2017, section 3.2.2, https://arxiv.org/abs/1706.03762

    Every head has a scorer, a scope and a normalizer of its own, so that any of them may be learned; each sees queries,
    keys and values of the memory's (the values') width divided by the number of heads. Where nothing of them is
    learned, heads differ only in what they see: they then are the rows of one read. So are they to a kernel that takes
    them ``together``, where scorers learn no more than how to prepare queries and keys.

    Args:
        heads: what attends, each for queries and memories of width ``memory_size / heads``; made of the same choices.
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
        past = first.needs_past or hasattr(first.scorer, "penalty")
        self.alike = not (past or first.state_dict())
        self.alike_but_scorers = not (past or first.scope.state_dict() or first.normalizer.state_dict())

    @property
    def _heads(self) -> list[Attention]:
        return list(self.each)  # type: ignore[arg-type]

    def remember(
        self,
        states: Tensor,
        present: Tensor | None = None,
        values: Tensor | None = None,
        turn: Tensor | None = None,
    ) -> Memory:
        """As :meth:`Attention.remember`; keys (b, h, m, k) and values (b, h, m, v / h).

        ``turn`` (2, b or 1, m, k / 2), of :func:`attnx.ops.rope_cos_sin`, turns what each
        head's scorer gets by its position.
        """
        check_states(states, present, values, self.keys.in_features)
        states, present, values = zero_padding(states, present, values)
        # The projections have no bias, so that what is absent stays zero.
        projected = self._split(states, self.keys, turn)
        if self.alike:
            keys = self._heads[0].scorer.keys(projected)
        else:
            mine = zip(self._heads, projected.unbind(1), strict=True)
            keys = torch.stack([head.scorer.keys(part) for head, part in mine], dim=1)
        return Memory(keys, self._split(values, self.values), present, lengths=(states.shape[1],))

    def forward(
        self,
        queries: Tensor,
        memory: Memory,
        allowed: Tensor | None = None,
        at: Tensor | None = None,
        past: AttentionHistory | None = None,
        need_weights: bool = False,
        keep: Tensor | None = None,
        turn: Tensor | None = None,
    ) -> AttentionOutput:
        """As :meth:`Attention.forward`; weights, scores, ``keep`` (b, h, q, m) and the past (b, h, m) of every head.

        ``turn`` is that of the queries, as for :meth:`remember`.
        """
        check_query(queries, memory, allowed, self.query.in_features)
        mine = self._split(queries, self.query, turn)
        if at is None:
            at = torch.arange(queries.shape[1], device=queries.device)
        found = None if past is not None else self._as_rows(mine, memory, allowed, at, need_weights, keep)
        if found is None:
            found = self._one_by_one(mine, memory, allowed, at, past, need_weights, keep)
        return found._replace(context=self.out(found.context.transpose(1, 2).flatten(2)))

    def _as_rows(
        self,
        queries: Tensor,
        memory: Memory,
        allowed: Tensor | None,
        at: Tensor,
        need_weights: bool,
        keep: Tensor | None,
    ) -> AttentionOutput | None:
        """One read for all, each row of the batch as many rows as there are heads; None where heads are too unlike."""

        def rows(part: Tensor) -> Tensor:
            return part[:, None].expand(-1, self.heads, *[-1] * (part.dim() - 1)).flatten(0, 1)

        first = self._heads[0]
        if not (self.alike or (self.alike_but_scorers and first.kernels)):
            return None
        keys, values, present, lengths = memory
        memory = Memory(keys.flatten(0, 1), values.flatten(0, 1), rows(present), lengths)
        if allowed is not None:
            allowed = rows(allowed.expand(len(present), queries.shape[2], keys.shape[2]))
        at = at if at.dim() == 1 else rows(at.expand(len(present), -1))
        keep = None if keep is None else keep.flatten(0, 1)
        if self.alike:
            found = first(queries.flatten(0, 1), memory, allowed, at, None, need_weights, keep)
        else:
            found = self._by_kernel(queries, memory, allowed, at, need_weights, keep)
        if found is None:
            return None
        apart: list[Any] = [None if part is None else part.unflatten(0, (-1, self.heads)) for part in found]
        return AttentionOutput(*apart)

    def _by_kernel(
        self,
        queries: Tensor,
        memory: Memory,
        allowed: Tensor | None,
        at: Tensor,
        need_weights: bool,
        keep: Tensor | None,
    ) -> AttentionOutput | None:
        """The rows' read by a kernel that asks no scorer; None if there is none for it."""
        first = self._heads[0]
        if keep is not None or (first.training and first.dropout > 0):
            return None
        mine = zip(self._heads, queries.unbind(1), strict=True)
        prepared = torch.stack([head.scorer.queries(part) for head, part in mine], dim=1).flatten(0, 1)
        asked = AttentionInputs(queries.flatten(0, 1), prepared, memory, at, allowed, None, keep, need_weights)
        able = [kernel for kernel in first.kernels if getattr(kernel, "together", False)]
        return read_by_kernel(able, first, asked)

    def _one_by_one(
        self,
        queries: Tensor,
        memory: Memory,
        allowed: Tensor | None,
        at: Tensor,
        past: AttentionHistory | None,
        need_weights: bool,
        keep: Tensor | None,
    ) -> AttentionOutput:
        """A read of each head's own."""
        reads = [
            head(
                queries[:, i],
                memory._replace(keys=memory.keys[:, i], values=memory.values[:, i]),
                allowed,
                at,
                None if past is None else AttentionHistory(past.last[:, i], past.total[:, i]),
                need_weights,
                None if keep is None else keep[:, i],
            )
            for i, head in enumerate(self._heads)
        ]
        context = torch.stack([read.context for read in reads], dim=1)
        penalties = [read.penalty for read in reads if read.penalty is not None]
        penalty = torch.stack(penalties).mean(0) if penalties else None
        if not need_weights:
            return AttentionOutput(context, penalty=penalty)
        weights = torch.stack([read.weights for read in reads], dim=1)
        return AttentionOutput(context, weights, torch.stack([read.scores for read in reads], dim=1), penalty)

    def _split(self, states: Tensor, by: nn.Linear, turn: Tensor | None = None) -> Tensor:
        """(b, m, ...) -> (b, h, m, width / h), projected, and turned by its positions if it is to be."""
        # Shapes in full: a memory may be empty, and a traced one of any length.
        shape = states.shape[0], states.shape[1], self.heads, by.out_features // self.heads
        each = by(states).view(shape).transpose(1, 2)
        return each if turn is None else apply_rope(each, turn[:, :, None])


def head_width(heads: int, size: int, what: str) -> int:
    """The width of one head.

    Raises:
        UserError: the heads do not divide ``size``.
    """
    if size % heads:
        raise UserError(f"attention.heads={heads} does not divide {what}, {size}; choose another number of heads")
    return size // heads
