"""Attention with one head, composed of a scorer, a scope and a normalizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from attnx.attention.contracts import (
    AttentionParts,
    HistoryScorer,
    Normalizer,
    RecurrentNormalizer,
    RecurrentScorer,
    SampledNormalizer,
    Scorer,
)
from attnx.attention.inputs import check_query, check_states, query_mask, query_steps, zero_padding
from attnx.attention.memory import empty_history
from attnx.attention.types import (
    AttentionHistory,
    AttentionInputs,
    AttentionOutput,
    Memory,
    SampledWeights,
    ScopeMask,
)
from attnx.errors import UserError
from attnx.ops import is_tracing


class Attention(nn.Module):
    """Attention with one head: a scorer, a scope and a normalizer; :func:`attnx.attention.build` builds it by name.

    Formula: ``context(q) = sum_m normalize(score(q, m) + bias(q, distance of m) over the scope)(m) value(m)``
    Source: Bahdanau et al. 2015, equations 5 and 6, https://arxiv.org/abs/1409.0473

    Queries are projected to the memory's width if the scorer needs equal widths and they differ.

    Args:
        parts: the scorer, which scores queries and keys; the scope, which masks positions; the normalizer, which maps
            scores to weights; and a bias by position, which is added to the scores, or None.
        query_size: width of the queries.
        memory_size: width of the memory's states.
        dropout: share of the weights dropped while training.
        chunk_mib: how many MiB the hidden layers of scores may take at a time after ``accel.enable``.
        softcap: the bound of the scores' absolute values, approached smoothly; None without.
    """

    num_heads = 1

    def __init__(
        self,
        parts: AttentionParts,
        query_size: int,
        memory_size: int,
        dropout: float = 0.0,
        chunk_mib: int = 64,
        softcap: float | None = None,
    ) -> None:
        super().__init__()
        self.scorer, self.scope, self.normalizer, self.bias = parts
        needs_projection = bool(self.scorer.requires_equal_dims) and query_size != memory_size
        self.project = nn.Linear(query_size, memory_size, bias=False) if needs_projection else nn.Identity()
        self.query_size, self.memory_size = query_size, memory_size
        self.dropout, self.chunk_mib, self.softcap = dropout, chunk_mib, softcap

    @property
    def needs_history(self) -> bool:
        """Whether the scorer reads earlier weights, or a part carries something from step to step."""
        return needs_history(self.scorer) or is_recurrent(self.scorer) or is_recurrent(self.normalizer)

    @property
    def is_distribution(self) -> bool:
        """Whether weights sum to 1, as far as the normalizer declares it."""
        return bool(getattr(self.normalizer, "is_distribution", False))

    @property
    def is_sampled(self) -> bool:
        """Whether positions are sampled in training, as the normalizer declares."""
        return bool(getattr(self.normalizer, "is_sampled", False))

    @property
    def is_sampling(self) -> bool:
        """Whether positions are sampled now."""
        return self.training and self.is_sampled

    def make_memory(self, states: Tensor, memory_mask: Tensor | None = None, values: Tensor | None = None) -> Memory:
        """Prepare what may be read, once.

        Args:
            states: (b, m, memory_size), what queries are compared with.
            memory_mask: (b, m) bool, False at padding, which is never read; all True if left out. Padding comes last
                where a part depends on positions, as ``local``, ``gmm`` and biases do.
            values: (b, m, v), what contexts are made of; ``states`` if left out.

        Raises:
            UserError: these are of other shapes or types.
        """
        check_states(states, memory_mask, values, self.memory_size)
        has_padding = memory_mask is not None
        states, memory_mask, values = zero_padding(states, memory_mask, values)
        return Memory(self.scorer.project_keys(states), values, memory_mask, (states.shape[1],), has_padding)

    def init_history(self, memory: Memory) -> AttentionHistory | None:
        """The history before the first step, which the first call is passed; None if no part needs one."""
        if not self.needs_history:
            return None
        history = empty_history(memory)
        if is_recurrent(self.scorer):
            history = history._replace(scorer_carry=cast("RecurrentScorer", self.scorer).init_carry(memory.keys))
        if is_recurrent(self.normalizer):
            normalizer = cast("RecurrentNormalizer", self.normalizer)
            history = history._replace(normalizer_carry=normalizer.init_carry(memory.mask))
        return history

    def forward(
        self,
        queries: Tensor,
        memory: Memory,
        allowed_mask: Tensor | None = None,
        steps: Tensor | None = None,
        history: AttentionHistory | None = None,
        need_weights: bool = False,
        dropout_mask: Tensor | None = None,
    ) -> AttentionOutput:
        """Read the memory with each query.

        Args:
            queries: (b, q, query_size).
            memory: from :meth:`make_memory`.
            allowed_mask: (b, q, m) bool or broadcastable to it; narrows the scope further.
            steps: (q,) or (b, q) int64, the absolute step of each query; 0, 1, ... if left out.
            history: how the memory was read before the queries, for parts that need it; never, if left out.
            need_weights: also return weights and scores.
            dropout_mask: (b, q, m), multiplies the weights, for callers that draw theirs before a loop; left out, one
                is drawn while training.

        Returns:
            the contexts (b, q, v), weights and scores (b, q, m) if requested, what recurrent parts carry on, and what
            parts add to the loss.

        Raises:
            UserError: the queries, the memory or the mask are of other shapes or types; or the history is left out, and
                that of each query but the first would be another one.
        """
        check_query(queries, memory, allowed_mask, steps, self.query_size)
        if history is None and needs_history(self.scorer) and not is_tracing() and queries.shape[1] > 1:
            raise UserError(
                f"attention: {queries.shape[1]} queries without a history, but {type(self.scorer).__name__} reads the "
                "weights of the step before; call it once a step, with the history so far"
            )
        steps = query_steps(queries, steps)
        if dropout_mask is None and self.dropout > 0 and self.training:
            mask = queries.new_ones(*queries.shape[:2], memory.keys.shape[-2])
            dropout_mask = nn.functional.dropout(mask, self.dropout)
        history = (history or self.init_history(memory)) if self.needs_history else None
        prepared = self.scorer.project_queries(self.project(queries))
        inputs = AttentionInputs(queries, prepared, memory, steps, allowed_mask, history, dropout_mask, need_weights)
        return self.attend(inputs)

    if TYPE_CHECKING:  # a call of nn.Module takes and returns Any
        __call__ = forward

    def attend(self, inputs: AttentionInputs) -> AttentionOutput:
        """Attend as the parts define it."""
        if not is_recurrent(self.scorer):
            return self.attend_with_scores(inputs, self.score(inputs))
        scorer, history = cast("RecurrentScorer", self.scorer), inputs.history
        assert history is not None
        assert history.scorer_carry is not None
        queries, keys = inputs.prepared_queries, inputs.memory.keys
        if queries.shape[1]:
            scores, carry = scorer.score(queries, keys, history.scorer_carry)
        else:  # no step has scores
            scores, carry = queries.new_zeros(*queries.shape[:2], keys.shape[-2]), history.scorer_carry
        return self.attend_with_scores(inputs, scores)._replace(scorer_carry=carry)

    def score(self, inputs: AttentionInputs) -> Tensor:
        """The scores (b, q, m) of a scorer that is not recurrent; with a history separately for each source."""
        queries, keys, history = inputs.prepared_queries, inputs.memory.keys, inputs.history
        if history is None or not needs_history(self.scorer):
            return cast("Scorer", self.scorer).score(queries, keys)
        scorer, lengths = cast("HistoryScorer", self.scorer), list(inputs.memory.source_sizes)
        parts = (keys.mT, history.previous, history.cumulative)
        sources = zip(*(torch.split(part, lengths, dim=-1) for part in parts), strict=True)
        return torch.cat([scorer.score(queries, keys.mT, AttentionHistory(*weights)) for keys, *weights in sources], -1)

    def scope_mask(self, inputs: AttentionInputs) -> ScopeMask:
        """What may be read, and by what the weights are multiplied; a window holds within each source."""
        memory_mask = query_mask(inputs.memory, inputs.queries.shape[1])
        sources = torch.split(memory_mask, list(inputs.memory.source_sizes), dim=-1)
        masks = [self.scope(inputs.queries, inputs.steps, source) for source in sources]
        mask = ScopeMask._make(masks[0])
        if len(masks) > 1:
            has_gain = any(mask.gain is not None for mask in masks)
            gains = [_full_gain(mask, inputs.queries.dtype) for mask in masks] if has_gain else []
            allowed_mask = torch.cat([mask.allowed_mask for mask in masks], -1)
            mask = ScopeMask(allowed_mask, torch.cat(gains, -1) if gains else None)
        if inputs.allowed_mask is None:
            return mask
        return mask._replace(allowed_mask=mask.allowed_mask & inputs.allowed_mask)

    def position_bias(self, inputs: AttentionInputs) -> Tensor | None:
        """What the positions add to the scores, broadcastable to (b, q, m); None without a bias."""
        if self.bias is None:
            return None
        lengths, device = inputs.memory.source_sizes, inputs.steps.device
        positions = torch.cat([torch.arange(length, device=device) for length in lengths])
        steps = inputs.steps if inputs.steps.dim() == 2 else inputs.steps[None]
        return self.bias(inputs.queries, steps[..., None] - positions)

    def attend_with_scores(
        self, inputs: AttentionInputs, scores: Tensor, mask: ScopeMask | None = None
    ) -> AttentionOutput:
        """Bound the scores, add the bias, normalize and sum the values by the weights.

        ``mask`` defaults to :meth:`scope_mask`.
        """
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        bias = self.position_bias(inputs)
        scores = scores if bias is None else scores + bias
        mask = self.scope_mask(inputs) if mask is None else mask
        weights, carry, sampled = self._normalize(scores, mask.allowed_mask, inputs.history)
        if mask.gain is not None:
            weights = weights * mask.gain.to(weights.dtype)
        mixed = weights if inputs.dropout_mask is None else weights * inputs.dropout_mask
        context = mixed @ inputs.memory.values  # (b, q, v)
        penalties = [] if sampled is None else [sampled.penalty]
        if (add_penalty := getattr(self.scorer, "penalty", None)) is not None:
            penalties.append(add_penalty(weights, inputs.history))
        output = AttentionOutput(
            context,
            penalty=torch.stack(penalties).sum(0) if penalties else None,
            normalizer_carry=carry,
            log_prob=None if sampled is None else sampled.log_prob,
        )
        return output._replace(weights=weights, scores=scores) if inputs.need_weights else output

    def _normalize(
        self, scores: Tensor, allowed_mask: Tensor, history: AttentionHistory | None
    ) -> tuple[Tensor, Tensor | None, SampledWeights | None]:
        """The weights (b, q, m), what a recurrent normalizer carries on, and the terms of one that samples."""
        if self.is_sampling:
            sampled = cast("SampledNormalizer", self.normalizer).sample(scores, allowed_mask)
            return sampled.weights, None, sampled
        if not is_recurrent(self.normalizer):
            return cast("Normalizer", self.normalizer)(scores, allowed_mask), None, None
        assert history is not None
        assert history.normalizer_carry is not None
        if not scores.shape[1]:  # no step has weights
            return scores, history.normalizer_carry, None
        normalizer = cast("RecurrentNormalizer", self.normalizer)
        return *normalizer(scores, allowed_mask, history.normalizer_carry), None


def _full_gain(mask: ScopeMask, dtype: torch.dtype) -> Tensor:
    """The gain of every position (b, q, m), 1 where the scope gives none."""
    allowed_mask, gain = mask
    return torch.ones_like(allowed_mask, dtype=dtype) if gain is None else gain.expand_as(allowed_mask)


def needs_history(scorer: object) -> bool:
    """Whether a scorer reads earlier weights, as its class declares."""
    return bool(getattr(scorer, "needs_history", False))


def is_recurrent(part: object) -> bool:
    """Whether a scorer or normalizer carries a tensor from step to step, as its class declares."""
    return bool(getattr(part, "is_recurrent", False))
