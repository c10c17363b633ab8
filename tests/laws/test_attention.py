"""Laws of attention itself, for every scorer under every scope and normaliser."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnx import registry
from attnx.attention import Field, Memory, Past, Read
from attnx.attention.from_names import assemble, build
from attnx.attention.memory import beside, seen
from attnx.errors import UserError

pytestmark = pytest.mark.usefixtures("float64")
Choice = tuple[str, dict[str, Any]]

# Rows of 7, 4, 1 and no positions; 3 queries of width 5; keys of width 11, values of width 2.
B, Q, M, WIDTH, KEYS, VALUES = 4, 3, 7, 5, 11, 2
PRESENT = torch.arange(M) < torch.tensor([7, 4, 1, 0])[:, None]

# What a memory is made of is not attention's business: scopes that differ in their sources alone are one here.
ALIKE = ("encoder_decoder", "history")
FACTORS: dict[str, Any] = {
    "scorer": "plain",
    "normaliser": "plain",
    "scope": [
        ("local", {"window": 1}),
        ("local", {"window": 1, "center": "predictive"}),
        *((name, {}) for name in registry.names("scope") if name not in ("local", *ALIKE)),
    ],
}


@pytest.fixture
def attention(combination: dict[str, Choice]) -> Any:
    """One composition of parts, with a projection where the scorer needs one."""
    return composed(combination, WIDTH, KEYS, VALUES)


@pytest.fixture(params=["additive", "dot", "coverage"])
def simple(request: pytest.FixtureRequest) -> Any:
    """One whose parts do not matter: without a projection, with one, and with a past."""
    return composed({"scorer": request.param, "scope": "local", "normaliser": "softmax"}, WIDTH, KEYS, VALUES)


def composed(parts: dict[str, Any], *sizes: int, heads: int = 1) -> Any:
    return assemble(parts["scorer"], parts["scope"], parts["normaliser"], sizes, {"heads": heads})


class Given:
    """Random queries, states and values."""

    def __init__(self) -> None:
        self.queries, self.states = torch.randn(B, Q, WIDTH), torch.randn(B, M, KEYS)
        self.values = torch.randn(B, M, VALUES)

    def __iter__(self) -> Any:
        return iter((self.queries, self.states, self.values))


def before(states: Tensor, present: Tensor) -> Past:
    """How often each position was read, for scorers that look back; what is absent was not."""
    last = (3 * torch.arange(states.shape[1]) % 11 + 1).to(states.dtype) / 13 * present
    return Past(last, 2 * last + present)


def read(
    attention: Any, queries: Tensor, states: Tensor, values: Tensor | None, present: Tensor = PRESENT, **more: Any
) -> Read:
    memory, past = attention.remember(states, present, values), before(states, present)
    result: Read = attention(queries, memory, need_weights=True, **{"past": past, **more})
    return result


def field_of(attention: Any, queries: Tensor, present: Tensor = PRESENT) -> Field:
    """What the scope says, its gain 1 where it has none."""
    field: Field = attention.scope(queries, torch.arange(Q), present[:, None])
    return field._replace(gain=torch.ones(()) if field.gain is None else field.gain)


def test_shapes_and_zeros_where_not_allowed(attention: Any) -> None:
    """The context is the sum of the values by the weights, and nothing outside the scope weighs."""
    queries, states, values = Given()
    found = read(attention, queries, states, values)
    assert found.context.shape == (B, Q, VALUES)
    assert found.weights.shape == found.scores.shape == (B, Q, M)
    assert (found.weights[~field_of(attention, queries).allowed] == 0).all()
    by_hand = (found.weights[..., None] * values.masked_fill(~PRESENT[..., None], 0.0)[:, None]).sum(-2)
    torch.testing.assert_close(found.context, by_hand)


def test_weights_are_the_parts_in_turn(attention: Any) -> None:
    """Scorer, then normaliser over the scope, then the scope's gain, which is not renormalised."""
    queries, states, values = Given()
    found = read(attention, queries, states, values)
    field, scorer = field_of(attention, queries), attention.scorer
    states = states.masked_fill(~PRESENT[..., None], 0.0)
    past = before(states, PRESENT)
    looks_back = (past,) if attention.needs_past else ()
    scores = scorer.compare(scorer.queries(attention.project(queries)), scorer.keys(states), *looks_back)
    torch.testing.assert_close(found.scores, scores)
    torch.testing.assert_close(found.weights, attention.normaliser(scores, field.allowed) * field.gain)
    if found.penalty is not None:
        torch.testing.assert_close(found.penalty, scorer.penalty(found.weights, past))


def test_what_is_not_allowed_changes_nothing(attention: Any) -> None:
    """Other states and values at forbidden positions, present or not, give the same contexts."""
    queries, states, values = Given()
    allowed = field_of(attention, queries).allowed
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


def test_padding_may_hold_anything(attention: Any) -> None:
    """NaN and inf at absent positions reach neither the contexts nor any gradient."""
    queries, states, values = Given()
    expected = read(attention, queries, states, values)
    poison = torch.tensor([torch.nan, torch.inf, -torch.inf]).repeat(M)[:M, None]
    poisoned = [torch.where(PRESENT[..., None], tensor, poison).requires_grad_() for tensor in (states, values)]
    found = read(attention, queries, *poisoned)
    torch.testing.assert_close(found.context, expected.context)
    found.context.pow(2).sum().backward()
    for tensor in (*poisoned, *attention.parameters()):
        assert tensor.grad is None or tensor.grad.isfinite().all()
    for tensor in poisoned:
        assert (tensor.grad[~PRESENT] == 0).all()


def test_rows_are_independent(attention: Any) -> None:
    queries, states, values = Given()
    past = Past(*(torch.rand(2, B, M) * PRESENT))
    together = read(attention, queries, states, values, past=past)
    for row in range(B):
        pick = slice(row, row + 1)
        own = Past(past.last[pick], past.total[pick])
        alone = read(attention, queries[pick], states[pick], values[pick], PRESENT[pick], past=own)
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
    memory, past = attention.remember(states, PRESENT, values), before(states, PRESENT)
    at = torch.tensor([[0, 1, 2], [2, 0, 5], [1, 1, 1], [0, 1, 2]])
    whole = attention(queries, memory, at=at, past=past, need_weights=True)
    for step in range(Q):
        one = attention(queries[:, step : step + 1], memory, at=at[:, step : step + 1], past=past, need_weights=True)
        torch.testing.assert_close(one.context[:, 0], whole.context[:, step])
        torch.testing.assert_close(one.weights[:, 0], whole.weights[:, step])


def test_steps_count_from_zero(simple: Any) -> None:
    queries, states, values = Given()
    left_out = read(simple, queries, states, values)
    torch.testing.assert_close(read(simple, queries, states, values, at=torch.arange(Q)).context, left_out.context)


def test_an_empty_memory_reads_zeros(attention: Any) -> None:
    """A row in which nothing is present gives zeros, and zeros as gradients; so does a memory of no positions."""
    empty = attention.remember(torch.zeros(B, 0, KEYS), values=torch.zeros(B, 0, VALUES))
    assert torch.equal(attention(torch.randn(B, Q, WIDTH), empty).context, torch.zeros(B, Q, VALUES))
    queries, states, values = (tensor.requires_grad_() for tensor in Given())
    found = read(attention, queries, states, values, torch.zeros(B, M, dtype=torch.bool))
    assert (found.context == 0).all()
    assert (found.weights == 0).all()
    (found.context + 1).pow(2).sum().backward()
    for tensor in (queries, states, values, *attention.parameters()):
        assert tensor.grad is None or (tensor.grad == 0).all()


def test_gradients(attention: Any) -> None:
    """The whole read, padded row and empty row included, agrees with finite differences.

    Not so where a normaliser says that its gradient is no derivative; then there is one, and it is finite.
    """
    queries, states, values = (tensor.requires_grad_() for tensor in Given())
    parameters = [parameter for parameter in attention.parameters() if parameter.requires_grad]
    if not getattr(attention.normaliser, "differentiable", True):
        read(attention, queries, states, values).context.pow(2).sum().backward()
        assert all(tensor.grad.isfinite().all() for tensor in (queries, states, values, *parameters))
        return
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
    field = field_of(attention, queries)
    both = narrow & field.allowed
    assert (found.weights[~both] == 0).all()
    torch.testing.assert_close(found.weights, attention.normaliser(found.scores, both) * field.gain)
    everything = read(attention, queries, states, values, allowed=torch.ones(1, 1, 1, dtype=torch.bool))
    torch.testing.assert_close(everything.context, read(attention, queries, states, values).context)
    nothing = read(attention, queries, states, values, allowed=torch.zeros(B, Q, M, dtype=torch.bool))
    assert (nothing.context == 0).all()


def test_values_default_to_the_states(simple: Any) -> None:
    queries, states, _ = Given()
    torch.testing.assert_close(
        read(simple, queries, states, None).context, read(simple, queries, states, states).context
    )


def test_values_do_not_steer(simple: Any) -> None:
    """Weights come from the keys alone."""
    queries, states, values = Given()
    torch.testing.assert_close(
        read(simple, queries, states, values).weights, read(simple, queries, states, -3 * values).weights
    )


def test_weights_only_when_asked_for(simple: Any) -> None:
    queries, states, values = Given()
    memory = simple.remember(states, PRESENT, values)
    plain = simple(queries, memory)
    assert plain.weights is None
    assert plain.scores is None
    torch.testing.assert_close(plain.context, simple(queries, memory, need_weights=True).context)


def test_everything_is_present_by_default(simple: Any) -> None:
    queries, states, values = Given()
    memory = simple.remember(states, values=values)
    assert memory.present.all()
    expected = read(simple, queries, states, values, torch.ones(B, M, dtype=torch.bool))
    found = simple(queries, memory, past=before(states, memory.present))
    torch.testing.assert_close(found.context, expected.context)


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


def test_several_sources(attention: Any) -> None:
    """Each is scored and bounded as if it were alone; one row of weights is shared among all."""
    queries, states, values = Given()
    past = before(states, PRESENT)
    parts = [
        (
            attention.remember(states[:, cut], PRESENT[:, cut], values[:, cut]),
            Past(past.last[:, cut], past.total[:, cut]),
        )
        for cut in (slice(0, 3), slice(3, M))
    ]
    both = beside(*(memory for memory, _ in parts))
    assert both.lengths == (3, 4)
    found = attention(queries, both, past=past, need_weights=True)
    alone = [attention(queries, memory, past=own, need_weights=True).scores for memory, own in parts]
    torch.testing.assert_close(found.scores, torch.cat(alone, -1))
    fields = [field_of(attention, queries, memory.present) for memory, _ in parts]
    gain = torch.cat([field.gain.expand_as(field.allowed) for field in fields], -1)
    weights = attention.normaliser(found.scores, torch.cat([field.allowed for field in fields], -1)) * gain
    torch.testing.assert_close(found.weights, weights)
    torch.testing.assert_close(found.context, weights @ both.values)


def test_a_memory_that_grows(attention: Any) -> None:
    """Who sees the first n positions reads what a memory of n positions gives: all queries at once, as a loop would."""
    queries, states, values = Given()
    first = torch.tensor([2, 4, 5])
    past = before(states, PRESENT & (torch.arange(M) < 2))  # what is not there yet was not read
    memory = seen(attention.remember(states, PRESENT, values), first)
    found = attention(queries, memory, past=past, need_weights=True)
    for step, count in enumerate(first.tolist()):
        short = attention.remember(states[:, :count], PRESENT[:, :count], values[:, :count])
        own = Past(past.last[:, :count], past.total[:, :count])
        one = attention(queries[:, step : step + 1], short, at=torch.tensor([step]), past=own, need_weights=True)
        torch.testing.assert_close(found.context[:, step], one.context[:, 0])
        torch.testing.assert_close(found.weights[:, step, :count], one.weights[:, 0])
        assert (found.weights[:, step, count:] == 0).all()


def test_heads_are_attention_side_by_side(combination: dict[str, Choice]) -> None:
    """Each of two heads is an attention over its half of the projected query, keys and values."""
    both = composed(combination, WIDTH, 2 * KEYS, 2 * VALUES, heads=2)
    queries, states, values = torch.randn(B, Q, WIDTH), torch.randn(B, M, 2 * KEYS), torch.randn(B, M, 2 * VALUES)
    last, total = torch.rand(2, B, 2, M) * PRESENT[:, None]
    found = read(both, queries, states, values, past=Past(last, total))
    states, values = (tensor.masked_fill(~PRESENT[..., None], 0.0) for tensor in (states, values))
    halves = (both.query(queries).chunk(2, -1), both.keys(states).chunk(2, -1), both.values(values).chunk(2, -1))
    reads = [
        read(head, *half, past=Past(last[:, i], total[:, i]))
        for i, (head, *half) in enumerate(zip(both.each, *halves, strict=True))
    ]
    torch.testing.assert_close(found.context, both.out(torch.cat([one.context for one in reads], -1)))
    torch.testing.assert_close(found.weights, torch.stack([one.weights for one in reads], 1))
    torch.testing.assert_close(found.scores, torch.stack([one.scores for one in reads], 1))
    assert found.weights.shape == (B, 2, Q, M)
    if found.penalty is not None:
        torch.testing.assert_close(found.penalty, (reads[0].penalty + reads[1].penalty) / 2)


def test_dropout_drops_weights_after_normalising(simple: Any) -> None:
    """A mask of the caller's multiplies the weights that make the context, and not those that are shown."""
    queries, states, values = Given()
    keep = torch.bernoulli(torch.full((B, Q, M), 0.5)) * 2
    found = read(simple, queries, states, values, keep=keep)
    torch.testing.assert_close(found.weights, read(simple, queries, states, values).weights)
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
        sizes = (query_size, KEYS, KEYS)
        auto = assemble(plain_scorer, "global", "softmax", sizes, {"projection": "auto"})
        assert isinstance(auto.project, nn.Linear) == wanted
        if wanted:
            with pytest.raises(UserError, match=f"equal widths, but the query has {WIDTH} and the memory {KEYS}"):
                assemble(plain_scorer, "global", "softmax", sizes, {"projection": "never"})
        else:
            never = assemble(plain_scorer, "global", "softmax", sizes, {"projection": "never"})
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
