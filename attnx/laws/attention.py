"""The laws of attention, for any scorer, scope and normalizer, with one head or several."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Self

import torch
from torch import Tensor

from attnx.attention import AttentionHistory, ScopeMask
from attnx.attention.attention import is_recurrent, needs_history
from attnx.attention.memory import concat_sources, hide_future
from attnx.laws.attention_example import (
    KEYS,
    MEMORY_MASK,
    VALUES,
    WIDTH,
    B,
    Inputs,
    M,
    Parts,
    Q,
    attend,
    compose_parts,
    example_history,
    random_inputs,
    with_carry,
    without_padding,
)
from attnx.laws.candidate import Candidate
from attnx.laws.laws import TensorLaws
from attnx.laws.violation import require, require_close, require_finite, require_tensor

# The parts that a candidate is composed with, and the second scope that every law is checked with.
DEFAULT_PARTS: Parts = {"scorer": "additive", "scope": "global", "normalizer": "softmax"}
LOCAL_SCOPE = ("local", {"window": 1})


def _require_same_output(output: Any, context: Tensor, weights: Tensor, difference: str) -> None:
    """Check that contexts and weights are the expected ones."""
    require_close(output.context, context, "", f"{difference} the context differs")
    require_close(output.weights, weights, "", f"{difference} the weights differ")


class AttentionLaws(TensorLaws):
    """The laws of attention of a scorer, a scope and a normalizer."""

    kind, suffix, member, results = "attention", " in attention", "", "contexts"

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    @classmethod
    def cases(cls, candidate: Candidate) -> Iterator[Self]:
        """The candidate with parts of the core, and two scopes."""
        for scope in ("global", LOCAL_SCOPE):
            yield cls({**DEFAULT_PARTS, "scope": scope, candidate.kind: (candidate.name, candidate.options)})

    def _build(self) -> Any:
        return compose_parts(self.parts)

    def _inputs(self) -> dict[str, Tensor]:
        previous, cumulative = torch.rand(2, B, M) * MEMORY_MASK
        inputs = {**random_inputs()._asdict(), "previous": previous, "cumulative": cumulative}
        return {**inputs, "memory_mask": MEMORY_MASK.clone()}

    def _compute(self, *, previous: Tensor, cumulative: Tensor, memory_mask: Tensor, **inputs: Tensor) -> Tensor:
        """The contexts, and beside them the weights: (b, q, v + m)."""
        output = attend(self.part, Inputs(**inputs), memory_mask, history=AttentionHistory(previous, cumulative))
        return torch.cat([output.context, output.weights], -1)

    def _scope_mask(self, queries: Tensor, memory_mask: Tensor = MEMORY_MASK) -> ScopeMask:
        """The scope's mask, with a gain of 1 if it has none."""
        mask: ScopeMask = self.part.scope(queries, torch.arange(Q), memory_mask[:, None])
        return mask._replace(gain=torch.ones(()) if mask.gain is None else mask.gain)

    @property
    def _is_recurrent(self) -> bool:
        return is_recurrent(self.part.scorer) or is_recurrent(self.part.normalizer)

    def _normalize(self, scores: Tensor, mask: ScopeMask) -> Tensor:
        """The weights by the normalizer itself, from the first step on, times the gain."""
        normalizer, allowed_mask = self.part.normalizer, mask.allowed_mask
        if is_recurrent(normalizer):
            weights = normalizer(scores, allowed_mask, normalizer.init_carry(MEMORY_MASK))[0]
        else:
            weights = normalizer(scores, allowed_mask)
        weights = require_tensor(weights, "", scores.shape)
        return weights if mask.gain is None else weights * mask.gain

    def contexts_are_weighted_sums_of_values(self) -> None:
        """A context is the sum of the values weighted by the weights, which are 0 outside the scope."""
        inputs = random_inputs()
        output = attend(self.part, inputs)
        weights = require_tensor(output.weights, "", (B, Q, M))
        require_tensor(output.scores, "", (B, Q, M))
        outside = weights[~self._scope_mask(inputs.queries).allowed_mask]
        require((outside == 0).all(), "", "a position outside the scope has a weight above 0")
        expected = (weights[..., None] * without_padding(inputs.values)[:, None]).sum(-2)
        require_close(output.context, expected, "", "the context is not the weighted sum")

    def weights_are_normalized_scores_times_gain(self) -> None:
        """Weights are the scorer's scores plus the bias, normalized over the scope, times the scope's gain."""
        attention, scorer, inputs = self.part, self.part.scorer, random_inputs()
        output, states = attend(attention, inputs), without_padding(inputs.states)
        mask, history = self._scope_mask(inputs.queries), example_history(states, MEMORY_MASK)
        prepared, keys = scorer.project_queries(attention.project(inputs.queries)), scorer.project_keys(states)
        if is_recurrent(scorer):
            scores, _ = scorer.score(prepared, keys, scorer.init_carry(keys))
        else:
            scores = scorer.score(prepared, keys, *([history] if needs_history(scorer) else []))
        if attention.bias is not None:
            scores = scores + attention.bias(inputs.queries, torch.arange(Q)[None, :, None] - torch.arange(M))
        require_close(output.scores, scores, "", "the scores are not the scorer's and the bias's")
        weights = self._normalize(scores, mask)
        require_close(output.weights, weights, "", "the weights are not the normalized scores")
        if output.penalty is not None:
            penalty = scorer.penalty(output.weights, history)
            require_close(output.penalty, penalty, "", "the penalty is not the scorer's")

    def masked_positions_have_no_effect(self) -> None:
        """States and values have no effect on a context where masked, of recurrent parts at earlier steps, too."""
        inputs, changed = random_inputs(), random_inputs()
        allowed_mask, expected = self._scope_mask(inputs.queries).allowed_mask, attend(self.part, inputs).context
        for step in range(Q):
            first = 0 if self._is_recurrent else step
            forbidden = ~allowed_mask[:, first : step + 1].any(1)[..., None]
            states = torch.where(forbidden, 100 * changed.states, inputs.states)
            values = torch.where(forbidden, 100 * changed.values, inputs.values)
            output = attend(self.part, Inputs(inputs.queries, states, values)).context
            require_close(output[:, step], expected[:, step], "", "a masked position changes the context")

    def padding_may_be_nan(self) -> None:
        """NaN and infinity at padding reach neither the contexts nor the gradients."""
        inputs = self._inputs()
        expected = self._compute(**inputs)
        poison = torch.tensor([torch.nan, torch.inf, -torch.inf]).repeat(M)[:M, None]
        poisoned = {name: torch.where(MEMORY_MASK[..., None], inputs[name], poison) for name in ("states", "values")}
        leaves, output = self._backward({**inputs, **poisoned})
        require_close(output, expected, "", "padding changes the context")
        for name in poisoned:
            gradient = leaves[name].grad
            require_finite(gradient, "", f"gradients of the {name}")
            has_none = gradient is None or (gradient[~MEMORY_MASK] == 0).all()
            require(has_none, "", "padding has a gradient other than 0")
        for name, weight in self._trained_parameters():
            require_finite(weight.grad, "", f"gradients of the parameter {name}")

    def padding_has_no_effect(self) -> None:
        """Padding after a memory has no effect."""
        inputs, longer = random_inputs(), random_inputs()
        states, values = torch.cat([inputs.states, longer.states], 1), torch.cat([inputs.values, longer.values], 1)
        memory_mask = torch.cat([MEMORY_MASK, torch.zeros_like(MEMORY_MASK)], 1)
        padded = attend(self.part, Inputs(inputs.queries, states, values), memory_mask)
        tight, weights = attend(self.part, inputs), padded.weights[..., :M]
        _require_same_output(tight, padded.context, weights, "without padding")
        require((padded.weights[..., M:] == 0).all(), "", "padding has a weight above 0")

    def steps_equal_one_call(self) -> None:
        """A call for each query, with its step and what recurrent parts carry, gives what one call for all gives."""
        attention, (queries, states, values) = self.part, random_inputs()
        memory = attention.make_memory(states, MEMORY_MASK, values)
        history = with_carry(attention, memory, example_history(states, MEMORY_MASK))
        steps = torch.tensor([[0, 1, 2], [2, 0, 5], [1, 1, 1], [0, 1, 2]])
        full = attention(queries, memory, steps=steps, history=history, need_weights=True)
        for step in (slice(step, step + 1) for step in range(Q)):
            output = attention(queries[:, step], memory, steps=steps[:, step], history=history, need_weights=True)
            _require_same_output(output, full.context[:, step], full.weights[:, step], "one step at a time")
            carries = {"scorer_carry": output.scorer_carry, "normalizer_carry": output.normalizer_carry}
            history = history._replace(**carries)

    def empty_memory_gives_zeros(self) -> None:
        """A row of padding alone gives contexts and gradients of 0; so does a memory of no positions."""
        empty = self.part.make_memory(torch.zeros(B, 0, KEYS), values=torch.zeros(B, 0, VALUES))
        contexts = self.part(torch.randn(B, Q, WIDTH), empty, history=self.part.init_history(empty)).context
        require(torch.equal(contexts, torch.zeros(B, Q, VALUES)), "", "a memory of no positions does not give zeros")
        inputs = Inputs(*(tensor.requires_grad_() for tensor in random_inputs()))
        output = attend(self.part, inputs, memory_mask=torch.zeros(B, M, dtype=torch.bool))
        require((output.context == 0).all(), "", "the context of a row of padding is not 0")
        require(output.weights is not None and (output.weights == 0).all(), "", "weights of a row of padding are not 0")
        (output.context + 1).pow(2).sum().backward()
        leaves = (*inputs, *self.part.parameters())
        require(
            all(leaf.grad is None or (leaf.grad == 0).all() for leaf in leaves), "", "a row of padding has gradients"
        )

    def gradients_are_derivatives(self) -> None:
        """Gradients, padded and empty rows included, agree with finite differences, if the normalizer's do."""
        if getattr(self.part.normalizer, "is_differentiable", True):
            super().gradients_are_derivatives()

    def callers_can_restrict_the_scope(self) -> None:
        """A mask from the caller restricts the scope; weights are normalized over what both allow."""
        attention, inputs = self.part, random_inputs()
        restriction = torch.rand(B, Q, M) < 0.5
        output, mask = attend(attention, inputs, allowed_mask=restriction), self._scope_mask(inputs.queries)
        allowed_mask = restriction & mask.allowed_mask
        require((output.weights[~allowed_mask] == 0).all(), "", "a position that the caller masks has a weight above 0")
        weights = self._normalize(output.scores, mask._replace(allowed_mask=allowed_mask))
        require_close(output.weights, weights, "", "weights are not normalized over the caller's mask")
        unrestricted = attend(attention, inputs, allowed_mask=torch.ones(1, 1, 1, dtype=torch.bool)).context
        require_close(unrestricted, attend(attention, inputs).context, "", "the caller's mask extends the scope")
        contexts = attend(attention, inputs, allowed_mask=torch.zeros(B, Q, M, dtype=torch.bool)).context
        require((contexts == 0).all(), "", "where the caller forbids every position the context is not zero")

    def calls_leave_no_state(self) -> None:
        """A call leaves no state on a module, and memories do not affect each other."""
        attention, first, second = self.part, random_inputs(), random_inputs()
        previous = [dict(vars(module)) for module in attention.modules()]
        weights = copy.deepcopy(attention.state_dict())
        memory = attention.make_memory(first.states, MEMORY_MASK, first.values)
        history = attention.init_history(memory)
        expected = attention(first.queries, memory, history=history).context
        attend(attention, second)
        actual = attention(first.queries, memory, history=history).context
        require_close(actual, expected, "", "memories affect each other")
        current = [dict(vars(module)) for module in attention.modules()]
        require(current == previous, "", "a call changes attributes of a module")
        same = all(torch.equal(weights[name], tensor) for name, tensor in attention.state_dict().items())
        require(same, "", "a call changes the weights")

    def heads_are_independent_attentions(self) -> None:
        """Each of two heads attends over its half of the projected queries, keys and values."""
        both, queries = compose_parts(self.parts, 2 * KEYS, 2 * VALUES, heads=2), torch.randn(B, Q, WIDTH)
        states, values = torch.randn(B, M, 2 * KEYS), torch.randn(B, M, 2 * VALUES)
        last, total = torch.rand(2, B, 2, M) * MEMORY_MASK[:, None]
        output = attend(both, Inputs(queries, states, values), history=AttentionHistory(last, total))
        projected = (both.query(queries), both.keys(without_padding(states)), both.values(without_padding(values)))
        halves = zip(*(tensor.chunk(2, -1) for tensor in projected), strict=True)
        outputs = [
            attend(head, Inputs(*half), history=AttentionHistory(last[:, i], total[:, i]))
            for i, (head, half) in enumerate(zip(both.heads, halves, strict=True))
        ]
        joined = both.out(torch.cat([output.context for output in outputs], -1))
        require_close(output.context, joined, "", "the joined context is not the heads'")
        for name in ("weights", "scores"):
            stacked = torch.stack([getattr(output, name) for output in outputs], 1)
            require_close(getattr(output, name), stacked, "", f"the {name} are not the heads'")
        if output.penalty is not None:
            penalties = torch.stack([output.penalty for output in outputs if output.penalty is not None])
            require_close(output.penalty, penalties.mean(0), "", "the penalty is not the mean of the heads'")

    def sources_share_one_normalization(self) -> None:
        """Each source is scored and masked on its own; weights are normalized over all sources together.

        Recurrent parts are not asked for two sources: a model refuses them.
        """
        if self._is_recurrent:
            return
        attention, (queries, states, values) = self.part, random_inputs()
        history, cuts = example_history(states, MEMORY_MASK), (slice(0, 3), slice(3, M))
        memories = [attention.make_memory(states[:, cut], MEMORY_MASK[:, cut], values[:, cut]) for cut in cuts]
        histories = [AttentionHistory(history.previous[:, cut], history.cumulative[:, cut]) for cut in cuts]
        both = concat_sources(*memories)
        require(both.source_sizes == (3, 4), "", f"the sources' sizes are {both.source_sizes}")
        output = attention(queries, both, history=history, need_weights=True)
        alone = [
            attention(queries, memory, history=source_history, need_weights=True).scores
            for memory, source_history in zip(memories, histories, strict=True)
        ]
        require_close(output.scores, torch.cat(alone, -1), "", "a source has other scores next to another")
        masks = [self._scope_mask(queries, memory.mask) for memory in memories]
        gain = torch.cat([mask.gain.expand_as(mask.allowed_mask) for mask in masks if mask.gain is not None], -1)
        weights = attention.normalizer(output.scores, torch.cat([mask.allowed_mask for mask in masks], -1)) * gain
        require_close(output.weights, weights, "", "weights are not normalized over all sources")
        require_close(output.context, weights @ both.values, "", "the context is not that of all sources")

    def growing_memory_equals_its_prefixes(self) -> None:
        """A query that sees the first n positions gives what a memory of n positions gives.

        Recurrent parts are not asked for a memory that grows: a model refuses them.
        """
        if self._is_recurrent:
            return
        attention, (queries, states, values) = self.part, random_inputs()
        first = torch.tensor([2, 4, 5])
        history = example_history(states, MEMORY_MASK & (torch.arange(M) < 2))  # later positions have no history
        memory = hide_future(attention.make_memory(states, MEMORY_MASK, values), first)
        full = attention(queries, memory, history=history, need_weights=True)
        for step, count in enumerate(first.tolist()):
            short = attention.make_memory(states[:, :count], MEMORY_MASK[:, :count], values[:, :count])
            prefix_history = AttentionHistory(history.previous[:, :count], history.cumulative[:, :count])
            pick, steps = slice(step, step + 1), torch.tensor([step])
            output = attention(queries[:, pick], short, steps=steps, history=prefix_history, need_weights=True)
            weights = full.weights[:, pick, :count]
            _require_same_output(output, full.context[:, pick], weights, "in a growing memory")
            require((full.weights[:, step, count:] == 0).all(), "", "a future position has a weight above 0")
