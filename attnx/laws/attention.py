"""The laws of attention itself: whatever scorer, scope and normalizer are composed, with one head or several."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnx.attention import AttentionHistory, AttentionOutput, ScopeMask
from attnx.attention.factory import build_attention
from attnx.laws.gradients import require_finite_gradients, require_gradients
from attnx.laws.violation import require, require_close, require_finite, require_tensor

Parts = Mapping[str, Any]  # scorer, scope and normalizer, each by name, or by name and knobs

# Rows of 7, 4, 1 and no positions; 3 queries of width 5; keys of width 11, values of width 2.
B, Q, M, WIDTH, KEYS, VALUES = 4, 3, 7, 5, 11, 2
PRESENT = torch.arange(M) < torch.tensor([7, 4, 1, 0])[:, None]


class Inputs(NamedTuple):
    """What is read: queries (b, q, 5), states (b, m, 11) and values (b, m, 2)."""

    queries: Tensor
    states: Tensor
    values: Tensor


def drawn() -> Inputs:
    """Random queries, states and values."""
    return Inputs(torch.randn(B, Q, WIDTH), torch.randn(B, M, KEYS), torch.randn(B, M, VALUES))


def composed(parts: Parts, keys: int = KEYS, values: int = VALUES, heads: int = 1) -> Any:
    """The parts as one attention, with a projection where the scorer needs one."""
    sizes = (WIDTH, keys, values)
    return build_attention(parts["scorer"], parts["scope"], parts["normalizer"], sizes, {"heads": heads}).eval()


def read_before(states: Tensor, present: Tensor) -> AttentionHistory:
    """How often each position was read, for scorers that look back; what is absent was not."""
    last = (3 * torch.arange(states.shape[1]) % 11 + 1).to(states.dtype) / 13 * present
    return AttentionHistory(last, 2 * last + present)


def read(
    attention: Any, queries: Tensor, states: Tensor, values: Tensor | None, present: Tensor = PRESENT, **more: Any
) -> AttentionOutput:
    """Read what was remembered, with weights and scores."""
    memory, past = attention.make_memory(states, present, values), read_before(states, present)
    found: AttentionOutput = attention(queries, memory, need_weights=True, **{"history": past, **more})
    return found


def field_of(attention: Any, queries: Tensor, present: Tensor = PRESENT) -> ScopeMask:
    """What the scope says, its gain 1 where it has none."""
    field: ScopeMask = attention.scope(queries, torch.arange(Q), present[:, None])
    return field._replace(gain=torch.ones(()) if field.gain is None else field.gain)


def without_padding(tensor: Tensor) -> Tensor:
    """(b, m, ...) with zeros where nothing is present."""
    return tensor.masked_fill(~PRESENT[..., None], 0.0)


def a_context_is_the_sum_of_the_values_by_the_weights(parts: Parts) -> None:
    """The context is the sum of the values by the weights, and nothing outside the scope weighs."""
    attention, inputs = composed(parts), drawn()
    found = read(attention, *inputs)
    weights = require_tensor(found.weights, "", (B, Q, M))
    require_tensor(found.scores, "", (B, Q, M))
    outside = weights[~field_of(attention, inputs.queries).allowed]
    require((outside == 0).all(), "", "what is outside the scope weighs something")
    by_hand = (weights[..., None] * without_padding(inputs.values)[:, None]).sum(-2)
    require_close(found.context, by_hand, "", "the context is not the weighted sum")


def weights_are_the_parts_in_turn(parts: Parts) -> None:
    """Weights are the scorer's scores, normalized over the scope, times the scope's gain, not renormalized."""
    attention, inputs = composed(parts), drawn()
    found, states = read(attention, *inputs), without_padding(inputs.states)
    field, scorer, past = field_of(attention, inputs.queries), attention.scorer, read_before(states, PRESENT)
    looks_back = (past,) if attention.needs_history else ()
    scores = scorer.score(
        scorer.project_queries(attention.project(inputs.queries)), scorer.project_keys(states), *looks_back
    )
    assert found.scores is not None and found.weights is not None  # noqa: PT018 - both were asked for
    require_close(found.scores, scores, "", "the scores are not the scorer's")
    weights = attention.normalizer(scores, field.allowed) * field.gain
    require_close(found.weights, weights, "", "the weights are not the normalized scores")
    if found.penalty is not None:
        require_close(found.penalty, scorer.penalty(found.weights, past), "", "the penalty is not the scorer's")


def what_is_not_allowed_changes_nothing(parts: Parts) -> None:
    """Other states and values at forbidden positions, present or not, give the same contexts."""
    attention, inputs, other = composed(parts), drawn(), drawn()
    allowed = field_of(attention, inputs.queries).allowed
    expected = read(attention, *inputs).context
    for step in range(Q):
        forbidden = ~allowed[:, step, :, None]
        states = torch.where(forbidden, 100 * other.states, inputs.states)
        values = torch.where(forbidden, 100 * other.values, inputs.values)
        found = read(attention, inputs.queries, states, values).context
        require_close(found[:, step], expected[:, step], "", "what is not allowed changes the context")


def padding_may_hold_anything(parts: Parts) -> None:
    """NaN and infinity at absent positions reach neither the contexts nor any gradient."""
    attention, (queries, states, values) = composed(parts), drawn()
    expected = read(attention, queries, states, values)
    poison = torch.tensor([torch.nan, torch.inf, -torch.inf]).repeat(M)[:M, None]
    poisoned = [torch.where(PRESENT[..., None], tensor, poison).requires_grad_() for tensor in (states, values)]
    found = read(attention, queries, *poisoned)
    require_close(found.context, expected.context, "", "padding changes the context")
    found.context.pow(2).sum().backward()  # type: ignore[no-untyped-call]
    require_finite_gradients(attention, dict(zip(("states", "values"), poisoned, strict=True)), "")
    require(
        all(tensor.grad is None or (tensor.grad[~PRESENT] == 0).all() for tensor in poisoned),
        "",
        "padding has a gradient",
    )


def rows_are_independent(parts: Parts) -> None:
    """A row of a batch reads what it reads alone."""
    attention, (queries, states, values) = composed(parts), drawn()
    past = AttentionHistory(*(torch.rand(2, B, M) * PRESENT))
    together = read(attention, queries, states, values, history=past)
    for pick in (slice(row, row + 1) for row in range(B)):
        known = AttentionHistory(past.previous[pick], past.cumulative[pick])
        alone = read(attention, queries[pick], states[pick], values[pick], PRESENT[pick], history=known)
        require_same_read(alone, together._replace(context=together.context[pick]), pick, "beside other rows")


def require_same_read(found: AttentionOutput, expected: AttentionOutput, pick: Any, difference: str) -> None:
    """Raise a violation unless contexts are one, and weights those that ``pick`` picks of the expected."""
    require_close(found.context, expected.context, "", f"{difference} it reads another context")
    assert found.weights is not None and expected.weights is not None  # noqa: PT018 - both were asked for
    require_close(found.weights, expected.weights[pick], "", f"{difference} it reads with other weights")


def padding_changes_nothing(parts: Parts) -> None:
    """A longer memory whose new positions are absent is the same memory."""
    attention, inputs, more = composed(parts), drawn(), drawn()
    states, values = torch.cat([inputs.states, more.states], 1), torch.cat([inputs.values, more.values], 1)
    present = torch.cat([PRESENT, torch.zeros_like(PRESENT)], 1)
    padded = read(attention, inputs.queries, states, values, present)
    require_same_read(read(attention, *inputs), padded, (..., slice(0, M)), "without padding")
    assert padded.weights is not None
    require((padded.weights[..., M:] == 0).all(), "", "padding weighs something")


def a_loop_is_all_at_once(parts: Parts) -> None:
    """A loop over the queries, each with its step, reads what one call reads."""
    attention, (queries, states, values) = composed(parts), drawn()
    memory, past = attention.make_memory(states, PRESENT, values), read_before(states, PRESENT)
    at = torch.tensor([[0, 1, 2], [2, 0, 5], [1, 1, 1], [0, 1, 2]])
    whole = attention(queries, memory, steps=at, history=past, need_weights=True)
    for step in (slice(step, step + 1) for step in range(Q)):
        one = attention(queries[:, step], memory, steps=at[:, step], history=past, need_weights=True)
        expected = whole._replace(context=whole.context[:, step])
        require_same_read(one, expected, (slice(None), step), "one step at a time")


def an_empty_memory_reads_zeros(parts: Parts) -> None:
    """A row in which nothing is present gives zeros, and zeros as gradients; so does a memory of no positions."""
    attention = composed(parts)
    empty = attention.make_memory(torch.zeros(B, 0, KEYS), values=torch.zeros(B, 0, VALUES))
    nothing = attention(torch.randn(B, Q, WIDTH), empty).context
    require(torch.equal(nothing, torch.zeros(B, Q, VALUES)), "", "a memory of no positions reads no zeros")
    inputs = Inputs(*(tensor.requires_grad_() for tensor in drawn()))
    found = read(attention, *inputs, present=torch.zeros(B, M, dtype=torch.bool))
    require((found.context == 0).all(), "", "where nothing is present the context is not zero")
    require(found.weights is not None and (found.weights == 0).all(), "", "where nothing is present weights are not 0")
    (found.context + 1).pow(2).sum().backward()  # type: ignore[no-untyped-call]
    leaves = (*inputs, *attention.parameters())
    require(all(leaf.grad is None or (leaf.grad == 0).all() for leaf in leaves), "", "an empty row has gradients")


def gradients(parts: Parts) -> None:
    """The whole read, padded row and empty row included, agrees with finite differences.

    Not so where a normalizer declares that its gradient is no derivative; then there is one, and it is finite.
    """
    attention, inputs = composed(parts), drawn()
    if getattr(attention.normalizer, "differentiable", True):
        require_gradients(lambda *given: read(attention, *given).context, inputs, attention, "")
        return
    leaves = {name: tensor.requires_grad_() for name, tensor in inputs._asdict().items()}
    read(attention, *leaves.values()).context.pow(2).sum().backward()  # type: ignore[no-untyped-call]
    require_finite_gradients(attention, leaves, "")


def a_caller_narrows_the_scope(parts: Parts) -> None:
    """What the caller forbids is not read, what it allows is still bound by the scope; the rest is normalized."""
    attention, inputs = composed(parts), drawn()
    narrow = torch.rand(B, Q, M) < 0.5
    found, field = read(attention, *inputs, allowed=narrow), field_of(attention, inputs.queries)
    both = narrow & field.allowed
    assert found.weights is not None
    require((found.weights[~both] == 0).all(), "", "what the caller forbids weighs something")
    weights = attention.normalizer(found.scores, both) * field.gain
    require_close(found.weights, weights, "", "what the caller allows is not normalized over that alone")
    everything = read(attention, *inputs, allowed=torch.ones(1, 1, 1, dtype=torch.bool)).context
    require_close(everything, read(attention, *inputs).context, "", "what the caller allows goes beyond the scope")
    nothing = read(attention, *inputs, allowed=torch.zeros(B, Q, M, dtype=torch.bool)).context
    require((nothing == 0).all(), "", "where the caller forbids everything the context is not zero")


def nothing_is_kept_between_calls(parts: Parts) -> None:
    """Memories that are read in turns do not mix, and no module holds more after a call than before."""
    attention, first, second = composed(parts), drawn(), drawn()
    before = [dict(vars(module)) for module in attention.modules()]
    weights = copy.deepcopy(attention.state_dict())
    one = attention.make_memory(first.states, PRESENT, first.values)
    expected = attention(first.queries, one).context
    attention(second.queries, attention.make_memory(second.states, PRESENT, second.values))
    require_close(attention(first.queries, one).context, expected, "", "reading another memory changes this one")
    after = [dict(vars(module)) for module in attention.modules()]
    require(after == before, "", "a call leaves something behind on a module")
    same = all(torch.equal(weights[name], tensor) for name, tensor in attention.state_dict().items())
    require(same, "", "a call changes the weights")


def bfloat16(parts: Parts) -> None:
    """Contexts of bfloat16 are bfloat16, and finite; so are gradients."""
    attention = composed(parts).to(torch.bfloat16)
    leaves = {name: tensor.to(torch.bfloat16).requires_grad_() for name, tensor in drawn()._asdict().items()}
    found = read(attention, *leaves.values())
    found.context.sum().backward()  # type: ignore[no-untyped-call]
    require(found.context.dtype == torch.bfloat16, "", f"a context of bfloat16 is {found.context.dtype}")
    require_finite(found.context, "", "contexts of bfloat16")
    require_finite_gradients(attention, leaves, "")


def heads_are_attention_side_by_side(parts: Parts) -> None:
    """Each of two heads is an attention over its half of the projected query, keys and values."""
    both, queries = composed(parts, 2 * KEYS, 2 * VALUES, heads=2), torch.randn(B, Q, WIDTH)
    states, values = torch.randn(B, M, 2 * KEYS), torch.randn(B, M, 2 * VALUES)
    last, total = torch.rand(2, B, 2, M) * PRESENT[:, None]
    found = read(both, queries, states, values, history=AttentionHistory(last, total))
    projected = (both.query(queries), both.keys(without_padding(states)), both.values(without_padding(values)))
    halves = zip(*(tensor.chunk(2, -1) for tensor in projected), strict=True)
    reads = [
        read(head, *half, history=AttentionHistory(last[:, i], total[:, i]))
        for i, (head, half) in enumerate(zip(both.each, halves, strict=True))
    ]
    joined = both.out(torch.cat([one.context for one in reads], -1))
    require_close(found.context, joined, "", "a head reads otherwise beside another")
    for name in ("weights", "scores"):
        each = torch.stack([getattr(one, name) for one in reads], 1)
        require_close(getattr(found, name), each, "", f"a head has other {name} beside another")
    if found.penalty is not None:
        penalties = torch.stack([one.penalty for one in reads if one.penalty is not None])
        require_close(found.penalty, penalties.mean(0), "", "the penalty is not the mean of the heads'")


LAWS = (
    a_context_is_the_sum_of_the_values_by_the_weights,
    weights_are_the_parts_in_turn,
    what_is_not_allowed_changes_nothing,
    padding_may_hold_anything,
    rows_are_independent,
    padding_changes_nothing,
    a_loop_is_all_at_once,
    an_empty_memory_reads_zeros,
    gradients,
    a_caller_narrows_the_scope,
    nothing_is_kept_between_calls,
    bfloat16,
    heads_are_attention_side_by_side,
)
