"""The laws of attention, for any scorer, scope and normalizer, with one head or several."""

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

Parts = Mapping[str, Any]  # scorer, scope and normalizer, by name, or by name and options

# Rows of 7, 4, 1 and no positions; 3 queries of width 5; keys of width 11, values of width 2.
B, Q, M, WIDTH, KEYS, VALUES = 4, 3, 7, 5, 11, 2
MEMORY_MASK = torch.arange(M) < torch.tensor([7, 4, 1, 0])[:, None]


class Inputs(NamedTuple):
    """The inputs of attention: queries (b, q, 5), states (b, m, 11) and values (b, m, 2)."""

    queries: Tensor
    states: Tensor
    values: Tensor


def random_inputs() -> Inputs:
    """Random queries, states and values."""
    return Inputs(torch.randn(B, Q, WIDTH), torch.randn(B, M, KEYS), torch.randn(B, M, VALUES))


def compose(parts: Parts, keys: int = KEYS, values: int = VALUES, heads: int = 1) -> Any:
    """Compose the parts, with a projection if the scorer needs one."""
    sizes = (WIDTH, keys, values)
    return build_attention(parts["scorer"], parts["scope"], parts["normalizer"], sizes, {"heads": heads}).eval()


def example_history(states: Tensor, memory_mask: Tensor) -> AttentionHistory:
    """Earlier weights, for scorers that need a history; 0 at padding."""
    last = (3 * torch.arange(states.shape[1]) % 11 + 1).to(states.dtype) / 13 * memory_mask
    return AttentionHistory(last, 2 * last + memory_mask)


def attend(
    attention: Any,
    queries: Tensor,
    states: Tensor,
    values: Tensor | None,
    memory_mask: Tensor = MEMORY_MASK,
    **kwargs: Any,
) -> AttentionOutput:
    """Attend to a memory of these states, with weights and scores."""
    memory, history = attention.make_memory(states, memory_mask, values), example_history(states, memory_mask)
    output: AttentionOutput = attention(queries, memory, need_weights=True, **{"history": history, **kwargs})
    return output


def scope_mask(attention: Any, queries: Tensor, memory_mask: Tensor = MEMORY_MASK) -> ScopeMask:
    """The scope's mask, with a gain of 1 if it has none."""
    mask: ScopeMask = attention.scope(queries, torch.arange(Q), memory_mask[:, None])
    return mask._replace(gain=torch.ones(()) if mask.gain is None else mask.gain)


def without_padding(tensor: Tensor) -> Tensor:
    """(b, m, ...) with zeros at padding."""
    return tensor.masked_fill(~MEMORY_MASK[..., None], 0.0)


def contexts_are_weighted_sums_of_values(parts: Parts) -> None:
    """A context is the sum of the values weighted by the weights, which are 0 outside the scope."""
    attention, inputs = compose(parts), random_inputs()
    output = attend(attention, *inputs)
    weights = require_tensor(output.weights, "", (B, Q, M))
    require_tensor(output.scores, "", (B, Q, M))
    outside = weights[~scope_mask(attention, inputs.queries).allowed_mask]
    require((outside == 0).all(), "", "a position outside the scope has a weight above 0")
    expected = (weights[..., None] * without_padding(inputs.values)[:, None]).sum(-2)
    require_close(output.context, expected, "", "the context is not the weighted sum")


def weights_are_normalized_scores_times_gain(parts: Parts) -> None:
    """Weights are the scorer's scores, normalized over the scope, times the scope's gain."""
    attention, inputs = compose(parts), random_inputs()
    output, states = attend(attention, *inputs), without_padding(inputs.states)
    mask, scorer, history = (
        scope_mask(attention, inputs.queries),
        attention.scorer,
        example_history(states, MEMORY_MASK),
    )
    arguments = (history,) if attention.needs_history else ()
    scores = scorer.score(
        scorer.project_queries(attention.project(inputs.queries)), scorer.project_keys(states), *arguments
    )
    assert output.scores is not None and output.weights is not None  # noqa: PT018 - both were requested
    require_close(output.scores, scores, "", "the scores are not the scorer's")
    weights = attention.normalizer(scores, mask.allowed_mask) * mask.gain
    require_close(output.weights, weights, "", "the weights are not the normalized scores")
    if output.penalty is not None:
        require_close(output.penalty, scorer.penalty(output.weights, history), "", "the penalty is not the scorer's")


def masked_positions_have_no_effect(parts: Parts) -> None:
    """States and values at masked positions have no effect on the contexts."""
    attention, inputs, changed = compose(parts), random_inputs(), random_inputs()
    allowed_mask = scope_mask(attention, inputs.queries).allowed_mask
    expected = attend(attention, *inputs).context
    for step in range(Q):
        forbidden = ~allowed_mask[:, step, :, None]
        states = torch.where(forbidden, 100 * changed.states, inputs.states)
        values = torch.where(forbidden, 100 * changed.values, inputs.values)
        output = attend(attention, inputs.queries, states, values).context
        require_close(output[:, step], expected[:, step], "", "a masked position changes the context")


def padding_may_be_nan(parts: Parts) -> None:
    """NaN and infinity at padding reach neither the contexts nor the gradients."""
    attention, (queries, states, values) = compose(parts), random_inputs()
    expected = attend(attention, queries, states, values)
    poison = torch.tensor([torch.nan, torch.inf, -torch.inf]).repeat(M)[:M, None]
    poisoned = [torch.where(MEMORY_MASK[..., None], tensor, poison).requires_grad_() for tensor in (states, values)]
    output = attend(attention, queries, *poisoned)
    require_close(output.context, expected.context, "", "padding changes the context")
    output.context.pow(2).sum().backward()  # type: ignore[no-untyped-call]
    require_finite_gradients(attention, dict(zip(("states", "values"), poisoned, strict=True)), "")
    require(
        all(tensor.grad is None or (tensor.grad[~MEMORY_MASK] == 0).all() for tensor in poisoned),
        "",
        "padding has a gradient other than 0",
    )


def rows_are_independent(parts: Parts) -> None:
    """Contexts and weights of a row do not depend on other rows."""
    attention, (queries, states, values) = compose(parts), random_inputs()
    history = AttentionHistory(*(torch.rand(2, B, M) * MEMORY_MASK))
    together = attend(attention, queries, states, values, history=history)
    for pick in (slice(row, row + 1) for row in range(B)):
        row_history = AttentionHistory(history.previous[pick], history.cumulative[pick])
        alone = attend(attention, queries[pick], states[pick], values[pick], MEMORY_MASK[pick], history=row_history)
        require_same_output(alone, together._replace(context=together.context[pick]), pick, "in a batch")


def require_same_output(output: AttentionOutput, expected: AttentionOutput, pick: Any, difference: str) -> None:
    """Check that contexts are the same, and weights the expected ones at ``pick``."""
    require_close(output.context, expected.context, "", f"{difference} the context differs")
    assert output.weights is not None and expected.weights is not None  # noqa: PT018 - both were requested
    require_close(output.weights, expected.weights[pick], "", f"{difference} the weights differ")


def padding_has_no_effect(parts: Parts) -> None:
    """Padding after a memory has no effect."""
    attention, inputs, longer = compose(parts), random_inputs(), random_inputs()
    states, values = torch.cat([inputs.states, longer.states], 1), torch.cat([inputs.values, longer.values], 1)
    memory_mask = torch.cat([MEMORY_MASK, torch.zeros_like(MEMORY_MASK)], 1)
    padded = attend(attention, inputs.queries, states, values, memory_mask)
    require_same_output(attend(attention, *inputs), padded, (..., slice(0, M)), "without padding")
    assert padded.weights is not None
    require((padded.weights[..., M:] == 0).all(), "", "padding has a weight above 0")


def steps_equal_one_call(parts: Parts) -> None:
    """A call for each query, with its step, gives what one call for all queries gives."""
    attention, (queries, states, values) = compose(parts), random_inputs()
    memory, history = attention.make_memory(states, MEMORY_MASK, values), example_history(states, MEMORY_MASK)
    steps = torch.tensor([[0, 1, 2], [2, 0, 5], [1, 1, 1], [0, 1, 2]])
    expected_output = attention(queries, memory, steps=steps, history=history, need_weights=True)
    for step in (slice(step, step + 1) for step in range(Q)):
        step_output = attention(queries[:, step], memory, steps=steps[:, step], history=history, need_weights=True)
        expected = expected_output._replace(context=expected_output.context[:, step])
        require_same_output(step_output, expected, (slice(None), step), "one step at a time")


def empty_memory_gives_zeros(parts: Parts) -> None:
    """A row of padding alone gives contexts and gradients of 0; so does a memory of no positions."""
    attention = compose(parts)
    empty = attention.make_memory(torch.zeros(B, 0, KEYS), values=torch.zeros(B, 0, VALUES))
    contexts = attention(torch.randn(B, Q, WIDTH), empty).context
    require(torch.equal(contexts, torch.zeros(B, Q, VALUES)), "", "a memory of no positions does not give zeros")
    inputs = Inputs(*(tensor.requires_grad_() for tensor in random_inputs()))
    output = attend(attention, *inputs, memory_mask=torch.zeros(B, M, dtype=torch.bool))
    require((output.context == 0).all(), "", "the context of a row of padding is not 0")
    require(output.weights is not None and (output.weights == 0).all(), "", "weights of a row of padding are not 0")
    (output.context + 1).pow(2).sum().backward()  # type: ignore[no-untyped-call]
    leaves = (*inputs, *attention.parameters())
    require(all(leaf.grad is None or (leaf.grad == 0).all() for leaf in leaves), "", "a row of padding has gradients")


def gradients(parts: Parts) -> None:
    """Gradients of attention, padded and empty rows included, agree with finite differences.

    If the normalizer declares ``differentiable = False``, they need only be finite.
    """
    attention, inputs = compose(parts), random_inputs()
    if getattr(attention.normalizer, "differentiable", True):
        require_gradients(lambda *tensors: attend(attention, *tensors).context, inputs, attention, "")
        return
    leaves = {name: tensor.requires_grad_() for name, tensor in inputs._asdict().items()}
    attend(attention, *leaves.values()).context.pow(2).sum().backward()  # type: ignore[no-untyped-call]
    require_finite_gradients(attention, leaves, "")


def callers_can_restrict_the_scope(parts: Parts) -> None:
    """A mask from the caller restricts the scope; weights are normalized over what both allow."""
    attention, inputs = compose(parts), random_inputs()
    restriction = torch.rand(B, Q, M) < 0.5
    output, mask = attend(attention, *inputs, allowed_mask=restriction), scope_mask(attention, inputs.queries)
    allowed_mask = restriction & mask.allowed_mask
    assert output.weights is not None
    require((output.weights[~allowed_mask] == 0).all(), "", "a position that the caller masks has a weight above 0")
    weights = attention.normalizer(output.scores, allowed_mask) * mask.gain
    require_close(output.weights, weights, "", "weights are not normalized over the caller's mask")
    unrestricted = attend(attention, *inputs, allowed_mask=torch.ones(1, 1, 1, dtype=torch.bool)).context
    require_close(unrestricted, attend(attention, *inputs).context, "", "the caller's mask extends the scope")
    contexts = attend(attention, *inputs, allowed_mask=torch.zeros(B, Q, M, dtype=torch.bool)).context
    require((contexts == 0).all(), "", "where the caller forbids unrestricted the context is not zero")


def calls_leave_no_state(parts: Parts) -> None:
    """A call leaves no state on a module, and memories do not affect each other."""
    attention, first, second = compose(parts), random_inputs(), random_inputs()
    previous = [dict(vars(module)) for module in attention.modules()]
    weights = copy.deepcopy(attention.state_dict())
    memory = attention.make_memory(first.states, MEMORY_MASK, first.values)
    expected = attention(first.queries, memory).context
    attention(second.queries, attention.make_memory(second.states, MEMORY_MASK, second.values))
    require_close(attention(first.queries, memory).context, expected, "", "memories affect each other")
    current = [dict(vars(module)) for module in attention.modules()]
    require(current == previous, "", "a call changes attributes of a module")
    same = all(torch.equal(weights[name], tensor) for name, tensor in attention.state_dict().items())
    require(same, "", "a call changes the weights")


def bfloat16(parts: Parts) -> None:
    """Contexts and gradients in bfloat16 are finite and bfloat16."""
    attention = compose(parts).to(torch.bfloat16)
    leaves = {name: tensor.to(torch.bfloat16).requires_grad_() for name, tensor in random_inputs()._asdict().items()}
    output = attend(attention, *leaves.values())
    output.context.sum().backward()  # type: ignore[no-untyped-call]
    require(output.context.dtype == torch.bfloat16, "", f"a context of bfloat16 is {output.context.dtype}")
    require_finite(output.context, "", "contexts of bfloat16")
    require_finite_gradients(attention, leaves, "")


def heads_are_independent_attentions(parts: Parts) -> None:
    """Each of two heads attends over its half of the projected queries, keys and values."""
    both, queries = compose(parts, 2 * KEYS, 2 * VALUES, heads=2), torch.randn(B, Q, WIDTH)
    states, values = torch.randn(B, M, 2 * KEYS), torch.randn(B, M, 2 * VALUES)
    last, total = torch.rand(2, B, 2, M) * MEMORY_MASK[:, None]
    output = attend(both, queries, states, values, history=AttentionHistory(last, total))
    projected = (both.query(queries), both.keys(without_padding(states)), both.values(without_padding(values)))
    halves = zip(*(tensor.chunk(2, -1) for tensor in projected), strict=True)
    outputs = [
        attend(head, *half, history=AttentionHistory(last[:, i], total[:, i]))
        for i, (head, half) in enumerate(zip(both.heads, halves, strict=True))
    ]
    joined = both.out(torch.cat([output.context for output in outputs], -1))
    require_close(output.context, joined, "", "the joined context is not that of the heads")
    for name in ("weights", "scores"):
        stacked = torch.stack([getattr(output, name) for output in outputs], 1)
        require_close(getattr(output, name), stacked, "", f"the {name} are not those of the heads")
    if output.penalty is not None:
        penalties = torch.stack([output.penalty for output in outputs if output.penalty is not None])
        require_close(output.penalty, penalties.mean(0), "", "the penalty is not the mean of the heads'")


LAWS = (
    contexts_are_weighted_sums_of_values,
    weights_are_normalized_scores_times_gain,
    masked_positions_have_no_effect,
    padding_may_be_nan,
    rows_are_independent,
    padding_has_no_effect,
    steps_equal_one_call,
    empty_memory_gives_zeros,
    gradients,
    callers_can_restrict_the_scope,
    calls_leave_no_state,
    bfloat16,
    heads_are_independent_attentions,
)
