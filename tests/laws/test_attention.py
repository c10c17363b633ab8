"""Laws of attention itself, for every scorer under every scope and normaliser."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnx import registry
from attnx.attention import Memory, Read
from attnx.attention.from_names import assemble, build
from attnx.errors import UserError

pytestmark = pytest.mark.usefixtures("float64")
Choice = tuple[str, dict[str, Any]]

# Rows of 7, 4, 1 and no positions; 3 queries of width 5; keys of width 11, values of width 2.
B, Q, M, WIDTH, KEYS, VALUES = 4, 3, 7, 5, 11, 2
PRESENT = torch.arange(M) < torch.tensor([7, 4, 1, 0])[:, None]


@pytest.fixture
def attention(plain_scorer: Choice, each_scope: Choice, plain_normaliser: Choice) -> Any:
    """One composition of parts, with a projection where the scorer needs one."""
    return assemble(plain_scorer, each_scope, plain_normaliser, WIDTH, KEYS, {})


class Given:
    """Random queries, states and values."""

    def __init__(self) -> None:
        self.queries, self.states = torch.randn(B, Q, WIDTH), torch.randn(B, M, KEYS)
        self.values = torch.randn(B, M, VALUES)

    def __iter__(self) -> Any:
        return iter((self.queries, self.states, self.values))


def read(
    attention: Any, queries: Tensor, states: Tensor, values: Tensor | None, present: Tensor = PRESENT, **more: Any
) -> Read:
    result: Read = attention(queries, attention.remember(states, present, values), need_weights=True, **more)
    return result


def may_read(attention: Any, queries: Tensor) -> Tensor:
    allowed: Tensor = attention.scope(queries, torch.arange(Q), PRESENT).allowed
    return allowed


def test_shapes_and_zeros_where_not_allowed(attention: Any) -> None:
    """The context is the sum of the values by the weights, and nothing outside the scope weighs."""
    queries, states, values = Given()
    found = read(attention, queries, states, values)
    assert found.context.shape == (B, Q, VALUES)
    assert found.weights.shape == found.scores.shape == (B, Q, M)
    assert (found.weights[~may_read(attention, queries)] == 0).all()
    by_hand = (found.weights[..., None] * values.masked_fill(~PRESENT[..., None], 0.0)[:, None]).sum(-2)
    torch.testing.assert_close(found.context, by_hand)


def test_weights_are_the_parts_in_turn(attention: Any) -> None:
    """Scorer, then normaliser over the scope, then the scope's gain, which is not renormalised."""
    queries, states, values = Given()
    found = read(attention, queries, states, values)
    field = attention.scope(queries, torch.arange(Q), PRESENT)
    scorer = attention.scorer
    states = states.masked_fill(~PRESENT[..., None], 0.0)
    scores = scorer.compare(scorer.queries(attention.project(queries)), scorer.keys(states))
    weights = attention.normaliser(scores, field.allowed)
    torch.testing.assert_close(found.scores, scores)
    torch.testing.assert_close(found.weights, weights if field.gain is None else weights * field.gain)


def test_what_is_not_allowed_changes_nothing(attention: Any) -> None:
    """Other states and values at forbidden positions, present or not, give the same contexts."""
    queries, states, values = Given()
    allowed = may_read(attention, queries)
    expected = read(attention, queries, states, values).context
    for step in range(Q):
        forbidden = ~allowed[:, step, :, None]
        other = Given()
        changed = read(
            attention,
            queries,
            torch.where(forbidden, 100 * other.states, states),
            torch.where(forbidden, 100 * other.values, values),
        )
        torch.testing.assert_close(changed.context[:, step], expected[:, step])


@pytest.mark.parametrize("poison", [torch.nan, torch.inf, -torch.inf])
def test_padding_may_hold_anything(attention: Any, poison: float) -> None:
    """NaN and inf at absent positions reach neither the contexts nor any gradient."""
    queries, states, values = Given()
    expected = read(attention, queries, states, values)
    poisoned = [tensor.masked_fill(~PRESENT[..., None], poison).requires_grad_() for tensor in (states, values)]
    found = read(attention, queries, *poisoned)
    torch.testing.assert_close(found.context, expected.context)
    found.context.pow(2).sum().backward()
    for tensor in (*poisoned, *attention.parameters()):
        assert tensor.grad is None or tensor.grad.isfinite().all()
    for tensor in poisoned:
        assert (tensor.grad[~PRESENT] == 0).all()


def test_rows_are_independent(attention: Any) -> None:
    queries, states, values = Given()
    together = read(attention, queries, states, values)
    for row in range(B):
        pick = slice(row, row + 1)
        alone = read(attention, queries[pick], states[pick], values[pick], PRESENT[pick])
        torch.testing.assert_close(alone.context, together.context[pick])
        torch.testing.assert_close(alone.weights, together.weights[pick])


def test_padding_changes_nothing(attention: Any) -> None:
    """A longer memory whose new positions are absent is the same memory."""
    queries, states, values = Given()
    tight, more = read(attention, queries, states, values), Given()
    padded = read(
        attention,
        queries,
        torch.cat([states, more.states], 1),
        torch.cat([values, more.values], 1),
        torch.cat([PRESENT, torch.zeros(B, M, dtype=torch.bool)], 1),
    )
    torch.testing.assert_close(padded.context, tight.context)
    torch.testing.assert_close(padded.weights[..., :M], tight.weights)
    assert (padded.weights[..., M:] == 0).all()


def test_steps_are_all_at_once(attention: Any) -> None:
    """A loop over the queries, each told its step, reads what one call reads."""
    queries, states, values = Given()
    memory = attention.remember(states, PRESENT, values)
    at = torch.tensor([[0, 1, 2], [2, 0, 5], [1, 1, 1], [0, 1, 2]])
    whole = attention(queries, memory, at=at, need_weights=True)
    for step in range(Q):
        one = attention(queries[:, step : step + 1], memory, at=at[:, step : step + 1], need_weights=True)
        torch.testing.assert_close(one.context[:, 0], whole.context[:, step])
        torch.testing.assert_close(one.weights[:, 0], whole.weights[:, step])


def test_steps_count_from_zero(attention: Any) -> None:
    queries, states, values = Given()
    left_out = read(attention, queries, states, values)
    torch.testing.assert_close(read(attention, queries, states, values, at=torch.arange(Q)).context, left_out.context)


def test_an_empty_memory_reads_zeros(attention: Any) -> None:
    """A row in which nothing is present gives zeros, and finite gradients everywhere."""
    queries, states, values = (tensor.requires_grad_() for tensor in Given())
    found = read(attention, queries, states, values, torch.zeros(B, M, dtype=torch.bool))
    assert (found.context == 0).all()
    assert (found.weights == 0).all()
    (found.context + 1).pow(2).sum().backward()
    for tensor in (queries, states, values, *attention.parameters()):
        assert tensor.grad is None or (tensor.grad == 0).all()


def test_gradients(attention: Any) -> None:
    """The whole read, padded row and empty row included, agrees with finite differences."""
    queries, states, values = (tensor.requires_grad_() for tensor in Given())
    parameters = [parameter for parameter in attention.parameters() if parameter.requires_grad]
    assert torch.autograd.gradcheck(
        lambda queries, states, values, *_: read(attention, queries, states, values).context,
        (queries, states, values, *parameters),
        fast_mode=True,
    )


def test_allowed_narrows(attention: Any) -> None:
    """What the caller forbids is not read, what it allows is still bound by the scope; the rest is renormalised."""
    queries, states, values = Given()
    narrow = torch.rand(B, Q, M) < 0.5
    found = read(attention, queries, states, values, allowed=narrow)
    both = narrow & may_read(attention, queries)
    assert (found.weights[~both] == 0).all()
    field = attention.scope(queries, torch.arange(Q), PRESENT)
    expected = attention.normaliser(found.scores, both)
    torch.testing.assert_close(found.weights, expected if field.gain is None else expected * field.gain)
    everything = read(attention, queries, states, values, allowed=torch.ones(1, 1, 1, dtype=torch.bool))
    torch.testing.assert_close(everything.context, read(attention, queries, states, values).context)
    nothing = read(attention, queries, states, values, allowed=torch.zeros(B, Q, M, dtype=torch.bool))
    assert (nothing.context == 0).all()


def test_values_default_to_the_states(attention: Any) -> None:
    queries, states, _ = Given()
    torch.testing.assert_close(
        read(attention, queries, states, None).context, read(attention, queries, states, states).context
    )


def test_values_do_not_steer(attention: Any) -> None:
    """Weights come from the keys alone."""
    queries, states, values = Given()
    torch.testing.assert_close(
        read(attention, queries, states, values).weights, read(attention, queries, states, -3 * values).weights
    )


def test_weights_only_when_asked_for(attention: Any) -> None:
    queries, states, values = Given()
    memory = attention.remember(states, PRESENT, values)
    plain = attention(queries, memory)
    assert plain.weights is None
    assert plain.scores is None
    torch.testing.assert_close(plain.context, attention(queries, memory, need_weights=True).context)


def test_everything_is_present_by_default(attention: Any) -> None:
    queries, states, values = Given()
    memory = attention.remember(states, values=values)
    assert memory.present.all()
    expected = read(attention, queries, states, values, torch.ones(B, M, dtype=torch.bool))
    torch.testing.assert_close(attention(queries, memory).context, expected.context)


def test_nothing_is_kept_between_calls(attention: Any) -> None:
    """Memories that are read in turns do not mix, and no module holds more after a call than before."""
    before = [dict(vars(module)) for module in attention.modules()]
    weights = copy.deepcopy(attention.state_dict())
    first, second = Given(), Given()
    one = attention.remember(first.states, PRESENT, first.values)
    expected = attention(first.queries, one).context
    two = attention.remember(second.states, PRESENT, second.values)
    attention(second.queries, two)
    torch.testing.assert_close(attention(first.queries, one).context, expected)
    assert [dict(vars(module)) for module in attention.modules()] == before
    assert all(torch.equal(weights[name], tensor) for name, tensor in attention.state_dict().items())


def test_bfloat16(attention: Any) -> None:
    attention.to(torch.bfloat16)
    tensors = [tensor.to(torch.bfloat16).requires_grad_() for tensor in Given()]
    found = read(attention, *tensors)
    found.context.sum().backward()
    assert found.context.dtype == torch.bfloat16
    assert found.context.isfinite().all()
    assert all(tensor.grad.isfinite().all() for tensor in tensors)


def test_dropout_drops_weights_after_normalising(attention: Any) -> None:
    """A mask of the caller's multiplies the weights that make the context, and not those that are shown."""
    queries, states, values = Given()
    keep = torch.bernoulli(torch.full((B, Q, M), 0.5)) * 2
    found = read(attention, queries, states, values, keep=keep)
    torch.testing.assert_close(found.weights, read(attention, queries, states, values).weights)
    torch.testing.assert_close(found.context, (found.weights * keep) @ values.masked_fill(~PRESENT[..., None], 0.0))


def test_own_dropout_is_for_training() -> None:
    """While training, each weight is dropped or scaled by 1 / (1 - rate); evaluation drops nothing."""
    attention = build(query_size=WIDTH, memory_size=KEYS, dropout=0.5)
    queries, states, _ = Given()
    memory = attention.remember(states, values=torch.eye(M).expand(B, M, M))  # a context is then its weights
    found = attention(queries, memory, need_weights=True)
    dropped = found.context == 0
    assert dropped.any()
    assert not dropped.all()
    torch.testing.assert_close(found.context[~dropped], 2 * found.weights[~dropped])
    attention.eval()
    torch.testing.assert_close(attention(queries, memory).context, found.weights)


def test_projection(plain_scorer: Choice) -> None:
    """``auto`` adds one linear map iff the scorer needs equal widths and they differ; ``never`` refuses then."""
    equal = registry.part("scorer", plain_scorer[0]).declares["equal_widths"]
    for query_size in (WIDTH, KEYS):
        wanted = equal and query_size != KEYS
        auto = assemble(plain_scorer, "global", "softmax", query_size, KEYS, {"projection": "auto"})
        assert isinstance(auto.project, nn.Linear) == wanted
        if wanted:
            with pytest.raises(UserError, match=f"equal widths, but the query has {WIDTH} and the memory {KEYS}"):
                assemble(plain_scorer, "global", "softmax", query_size, KEYS, {"projection": "never"})
        else:
            never = assemble(plain_scorer, "global", "softmax", query_size, KEYS, {"projection": "never"})
            assert not list(never.project.parameters())


def test_the_python_interface_never_projects(plain_scorer: Choice) -> None:
    if registry.part("scorer", plain_scorer[0]).declares["equal_widths"]:
        with pytest.raises(UserError, match="equal widths"):
            build(scorer=plain_scorer, query_size=WIDTH, memory_size=KEYS)
    build(scorer=plain_scorer, query_size=KEYS, memory_size=KEYS)


def test_a_part_by_name_by_name_and_knobs_or_as_an_instance() -> None:
    """The three spellings make the same module."""
    queries, states, values = Given()
    scorer = registry.build("scorer", ("mlp", {"widths": [19]}), query_size=WIDTH, memory_size=KEYS)
    by_instance = build(scorer=scorer, query_size=WIDTH, memory_size=KEYS)
    for spelling in (("mlp", {"widths": [19]}), {"name": "mlp", "widths": [19]}):
        by_name = build(scorer=spelling, query_size=WIDTH, memory_size=KEYS)
        by_name.load_state_dict(by_instance.state_dict())
        torch.testing.assert_close(
            read(by_name, queries, states, values).context, read(by_instance, queries, states, values).context
        )
    assert [name for name, _ in build(query_size=WIDTH, memory_size=KEYS).named_children()][:3] == [
        "scorer",
        "scope",
        "normaliser",
    ]


def test_no_attention_is_a_constant() -> None:
    """The baseline gives its one position at every step, whatever is asked."""
    constant = registry.build("attention", "none")
    last = torch.randn(B, 1, VALUES)
    memory = constant.remember(last, torch.ones(B, 1, dtype=torch.bool), last)
    assert isinstance(memory, Memory)
    found = constant(torch.randn(B, Q, 0), memory, need_weights=True)
    assert found.weights is None
    assert torch.equal(found.context, last.expand(B, Q, VALUES))
