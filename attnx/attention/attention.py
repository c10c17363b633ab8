"""Attention itself: a scorer, a scope and a normalizer composed; the query is made by its caller."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from attnx.accel.attention.softmax_cpu import weighted_sums
from attnx.attention.input_errors import check_query, check_states
from attnx.attention.kernel_call import read_by_kernel
from attnx.attention.memory import empty_history, zero_padding
from attnx.attention.protocols import AttentionHistory, AttentionInputs, AttentionOutput, Kernel, Memory, ScopeMask
from attnx.errors import UserError
from attnx.registry import Positive, Probability, Size, register


@register("attention", "standard")
class Attention(nn.Module):
    """Read a memory: score it, say what may be read, normalize, and sum the values by their weights.

    Formula: ``context(q) = sum_m normalize(score(q, m) over the scope)(m) value(m)``
    Source: Bahdanau et al. 2015, equations 5 and 6, https://arxiv.org/abs/1409.0473

    ``projection=auto`` adds one linear map from the query's width to the memory's if the scorer needs equal widths and
    they differ; ``never`` refuses instead. ``dropout`` drops weights after normalizing. With ``heads`` above 1 there
    are so many of it side by side, each with parts of its own over narrower projections of query and memory
    (:mod:`attnx.attention.heads`). ``schedule`` is read by the model's planner: ``auto``, or one to insist on.
    ``kernels=off`` computes every read as the parts define it, ``auto`` by a faster way to the same where there is one.
    ``chunk_mib`` is how many MiB hidden layers of scores may take at a time; what is larger is computed in tiles, and
    again for the gradients (:mod:`attnx.accel.attention.checkpointed`).

    >>> from attnx.attention import build
    >>> attention = build(scorer="additive", scope="local", query_size=13, memory_size=26)
    >>> memory = attention.remember(torch.ones(2, 5, 26))
    >>> read = attention(torch.ones(2, 3, 13), memory, need_weights=True)
    >>> read.context.shape, read.weights.shape
    (torch.Size([2, 3, 26]), torch.Size([2, 3, 5]))
    """

    def __init__(
        self,
        scorer: Any,
        scope: Any,
        normalizer: Any,
        query_size: Size,
        memory_size: Size,
        projection: Literal["auto", "never"] = "auto",
        dropout: Probability = 0.0,
        heads: Positive = 1,
        schedule: Literal["auto", "run_then_attend", "attend_then_run", "step_by_step"] = "auto",
        kernels: Literal["auto", "off"] = "auto",
        chunk_mib: Positive = 64,
    ) -> None:
        super().__init__()
        self.scorer: Any = scorer
        self.scope: Any = scope
        self.normalizer: Any = normalizer
        unlike = bool(scorer.equal_widths) and query_size != memory_size
        if unlike and projection == "never":
            raise UserError(
                f"the scorer {type(scorer).__name__.lower()} needs equal widths, but the query has {query_size} and "
                f"the memory {memory_size}; use attention.projection=auto, another scorer, or equal sizes"
            )
        self.project = nn.Linear(query_size, memory_size, bias=False) if unlike else nn.Identity()
        self.query_size, self.memory_size = query_size, memory_size
        self.dropout = dropout
        self.heads = 1  # where there are more, `MultiHeadAttention` holds one of these for each
        self.kernels: tuple[Kernel, ...] = ()  # what the factory found for these parts
        self.chunk_mib = chunk_mib

    @property
    def needs_past(self) -> bool:
        """Whether the scorer reads earlier weights."""
        return bool(getattr(self.scorer, "needs_past", False))

    def remember(self, states: Tensor, present: Tensor | None = None, values: Tensor | None = None) -> Memory:
        """Prepare what may be read, once.

        Args:
            states: (b, m, memory_size), what queries are compared with.
            present: (b, m) bool, all True if left out. What lies at absent positions is never read.
            values: (b, m, v), what contexts are made of; ``states`` if left out.

        Raises:
            UserError: these are of other shapes or types.
        """
        check_states(states, present, values, self.memory_size)
        states, present, values = zero_padding(states, present, values)
        return Memory(self.scorer.keys(states), values, present, lengths=(states.shape[1],))

    def forward(
        self,
        queries: Tensor,
        memory: Memory,
        allowed: Tensor | None = None,
        at: Tensor | None = None,
        past: AttentionHistory | None = None,
        need_weights: bool = False,
        keep: Tensor | None = None,
    ) -> AttentionOutput:
        """Read the memory with each query.

        Args:
            queries: (b, q, query_size).
            memory: from :meth:`remember`.
            allowed: (b, q, m) bool or broadcastable to it; narrows the scope further.
            at: (q,) or (b, q) int64, the absolute step of each query; 0, 1, ... if left out.
            past: how the memory was read before, for a scorer that needs it; never, if left out.
            need_weights: also return weights and scores.
            keep: (b, q, m) dropout mask to multiply the weights with, for callers that draw theirs before the loop;
                left out, one is drawn here while training.

        Returns:
            the contexts (b, q, v), and weights and scores (b, q, m) if asked for.

        Raises:
            UserError: the queries, the memory or what is allowed are of other shapes or types.
        """
        check_query(queries, memory, allowed, self.query_size)
        if at is None:
            at = torch.arange(queries.shape[1], device=queries.device)
        dropping = self.dropout > 0 and self.training
        if keep is None and dropping:
            mask = queries.new_ones(*queries.shape[:2], memory.keys.shape[-2])
            keep = nn.functional.dropout(mask, self.dropout)
        past = (past or empty_history(memory)) if self.needs_past else None
        prepared = self.scorer.queries(self.project(queries))
        asked = AttentionInputs(queries, prepared, memory, at, allowed, past, keep, need_weights)
        read = read_by_kernel(self.kernels, self, asked)
        return self.weigh(asked, self.score(asked)) if read is None else read

    def score(self, asked: AttentionInputs) -> Tensor:
        """The scores (b, q, m) as the scorer defines them."""
        if asked.past is not None:
            return self._looking_back(asked.asked, asked.memory, asked.past)
        scores: Tensor = self.scorer.compare(asked.asked, asked.memory.keys)
        return scores

    def field(self, asked: AttentionInputs) -> ScopeMask:
        """What may be read, and by what the weights are multiplied."""
        field = self._field(asked.queries, asked.at, asked.memory)
        return field if asked.allowed is None else field._replace(allowed=field.allowed & asked.allowed)

    def weigh(self, asked: AttentionInputs, scores: Tensor, field: ScopeMask | None = None) -> AttentionOutput:
        """Normalize the scores and sum the values by the weights; ``field`` is :meth:`field` where it is not given."""
        field = self.field(asked) if field is None else field
        weights = self.normalizer(scores, field.allowed)
        if field.gain is not None:
            weights = weights * field.gain
        context = weighted_sums(weights if asked.keep is None else weights * asked.keep, asked.memory.values)
        penalty = self.scorer.penalty(weights, asked.past) if hasattr(self.scorer, "penalty") else None
        return (
            AttentionOutput(context, weights, scores, penalty)
            if asked.need_weights
            else AttentionOutput(context, penalty=penalty)
        )

    def _looking_back(self, queries: Tensor, memory: Memory, past: AttentionHistory) -> Tensor:
        """Ask the scorer about each source on its own: the end of one is not near the start of the next."""
        lengths = list(memory.lengths)
        sources = zip(
            torch.split(memory.keys, lengths, dim=-2),
            torch.split(past.last, lengths, dim=-1),
            torch.split(past.total, lengths, dim=-1),
            strict=True,
        )
        return torch.cat(
            [self.scorer.compare(queries, keys, AttentionHistory(*read)) for keys, *read in sources], dim=-1
        )

    def _field(self, queries: Tensor, at: Tensor, memory: Memory) -> ScopeMask:
        """Ask the scope about each source on its own; a window holds within each."""
        present = memory.present if memory.present.dim() == 3 else memory.present[:, None]
        sources = torch.split(present, list(memory.lengths), dim=-1)
        fields = [self.scope(queries, at, source) for source in sources]
        if len(fields) == 1:
            return ScopeMask(*fields[0])
        gains = [field.gain for field in fields if field.gain is not None]
        return ScopeMask(torch.cat([field.allowed for field in fields], -1), torch.cat(gains, -1) if gains else None)
