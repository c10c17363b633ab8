"""Attention with one head, composed of a scorer, a scope and a normalizer."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from attnx.attention.contracts import HistoryScorer, Normalizer, Scope, Scorer
from attnx.attention.input_errors import check_query, check_states
from attnx.attention.memory import empty_history, zero_padding
from attnx.attention.types import AttentionHistory, AttentionInputs, AttentionOutput, Memory, ScopeMask


class Attention(nn.Module):
    """Attention with one head: a scorer, a scope and a normalizer; :func:`attnx.attention.build` builds it by name.

    Formula: ``context(q) = sum_m normalize(score(q, m) over the scope)(m) value(m)``
    Source: Bahdanau et al. 2015, equations 5 and 6, https://arxiv.org/abs/1409.0473

    Queries are projected to the memory's width if the scorer needs equal widths and they differ.

    Args:
        scorer: scores queries and keys.
        scope: masks positions.
        normalizer: maps scores to weights.
        query_size: width of the queries.
        memory_size: width of the memory's states.
        dropout: share of the weights dropped while training.
        chunk_mib: how many MiB the hidden layers of scores may take at a time after ``accel.enable``.
    """

    num_heads = 1

    def __init__(
        self,
        scorer: Scorer | HistoryScorer,
        scope: Scope,
        normalizer: Normalizer,
        query_size: int,
        memory_size: int,
        dropout: float = 0.0,
        chunk_mib: int = 64,
    ) -> None:
        super().__init__()
        self.scorer, self.scope, self.normalizer = scorer, scope, normalizer
        needs_projection = bool(scorer.requires_equal_dims) and query_size != memory_size
        self.project = nn.Linear(query_size, memory_size, bias=False) if needs_projection else nn.Identity()
        self.query_size, self.memory_size = query_size, memory_size
        self.dropout, self.chunk_mib = dropout, chunk_mib

    @property
    def needs_history(self) -> bool:
        """Whether the scorer reads earlier weights."""
        return bool(getattr(self.scorer, "needs_history", False))

    @property
    def is_distribution(self) -> bool:
        """Whether weights sum to 1, as far as the normalizer declares it."""
        return bool(getattr(self.normalizer, "is_distribution", False))

    def make_memory(self, states: Tensor, present: Tensor | None = None, values: Tensor | None = None) -> Memory:
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
        return Memory(self.scorer.project_keys(states), values, present, lengths=(states.shape[1],))

    def forward(
        self,
        queries: Tensor,
        memory: Memory,
        allowed: Tensor | None = None,
        steps: Tensor | None = None,
        history: AttentionHistory | None = None,
        need_weights: bool = False,
        dropout_mask: Tensor | None = None,
    ) -> AttentionOutput:
        """Read the memory with each query.

        Args:
            queries: (b, q, query_size).
            memory: from :meth:`make_memory`.
            allowed: (b, q, m) bool or broadcastable to it; narrows the scope further.
            steps: (q,) or (b, q) int64, the absolute step of each query; 0, 1, ... if left out.
            history: how the memory was read before, for a scorer that needs it; never, if left out.
            need_weights: also return weights and scores.
            dropout_mask: (b, q, m), multiplies the weights, for callers that draw theirs before a loop; left out, one
                is drawn while training.

        Returns:
            the contexts (b, q, v), and weights and scores (b, q, m) if requested.

        Raises:
            UserError: the queries, the memory or what is allowed are of other shapes or types.
        """
        check_query(queries, memory, allowed, self.query_size)
        if steps is None:
            steps = torch.arange(queries.shape[1], device=queries.device)
        dropping = self.dropout > 0 and self.training
        if dropout_mask is None and dropping:
            mask = queries.new_ones(*queries.shape[:2], memory.keys.shape[-2])
            dropout_mask = nn.functional.dropout(mask, self.dropout)
        history = (history or empty_history(memory)) if self.needs_history else None
        prepared = self.scorer.project_queries(self.project(queries))
        inputs = AttentionInputs(queries, prepared, memory, steps, allowed, history, dropout_mask, need_weights)
        return self.attend(inputs)

    def attend(self, inputs: AttentionInputs) -> AttentionOutput:
        """Attend as the parts define it."""
        return self.attend_with_scores(inputs, self.score(inputs))

    def score(self, inputs: AttentionInputs) -> Tensor:
        """The scores (b, q, m) as the scorer defines them."""
        if inputs.history is not None:
            return self._score_with_history(inputs.prepared_queries, inputs.memory, inputs.history)
        return cast("Scorer", self.scorer).score(inputs.prepared_queries, inputs.memory.keys)

    def scope_mask(self, inputs: AttentionInputs) -> ScopeMask:
        """What may be read, and by what the weights are multiplied."""
        mask = self._scope_mask(inputs.queries, inputs.steps, inputs.memory)
        return mask if inputs.allowed is None else mask._replace(allowed=mask.allowed & inputs.allowed)

    def attend_with_scores(
        self, inputs: AttentionInputs, scores: Tensor, mask: ScopeMask | None = None
    ) -> AttentionOutput:
        """Normalize the scores and sum the values by the weights; ``mask`` defaults to :meth:`scope_mask`."""
        mask = self.scope_mask(inputs) if mask is None else mask
        weights = self.normalizer(scores, mask.allowed)
        if mask.gain is not None:
            weights = weights * mask.gain
        context = self.weighted_sum(
            weights if inputs.dropout_mask is None else weights * inputs.dropout_mask, inputs.memory.values
        )
        add_penalty = getattr(self.scorer, "penalty", None)
        penalty = None if add_penalty is None else add_penalty(weights, inputs.history)
        return (
            AttentionOutput(context, weights, scores, penalty)
            if inputs.need_weights
            else AttentionOutput(context, penalty=penalty)
        )

    def weighted_sum(self, weights: Tensor, values: Tensor) -> Tensor:
        """(b, q, m) weights and (b, m, v) values -> contexts (b, q, v)."""
        return weights @ values

    def _score_with_history(self, queries: Tensor, memory: Memory, history: AttentionHistory) -> Tensor:
        """Score each source separately: the end of one is not near the start of the next."""
        scorer, lengths = cast("HistoryScorer", self.scorer), list(memory.lengths)
        sources = zip(
            torch.split(memory.keys, lengths, dim=-2),
            torch.split(history.previous, lengths, dim=-1),
            torch.split(history.cumulative, lengths, dim=-1),
            strict=True,
        )
        return torch.cat(
            [scorer.score(queries, keys, AttentionHistory(*weights)) for keys, *weights in sources], dim=-1
        )

    def _scope_mask(self, queries: Tensor, steps: Tensor, memory: Memory) -> ScopeMask:
        """Call the scope for each source separately; a window holds within each."""
        present = memory.present if memory.present.dim() == 3 else memory.present[:, None]
        sources = torch.split(present, list(memory.lengths), dim=-1)
        masks = [self.scope(queries, steps, source) for source in sources]
        if len(masks) == 1:
            return ScopeMask(*masks[0])
        gains = [mask.gain for mask in masks if mask.gain is not None]
        return ScopeMask(torch.cat([mask.allowed for mask in masks], -1), torch.cat(gains, -1) if gains else None)
