"""Laws of attention itself, for all scorers, scopes and normalizers."""

from typing import Any

import pytest
import torch
from torch import nn

from attnx import registry
from attnx.attention import Memory
from attnx.attention.factory import build, build_attention
from attnx.errors import UserError
from attnx.laws.attention import AttentionLaws
from attnx.laws.attention_example import (
    KEYS,
    MEMORY_MASK,
    VALUES,
    WIDTH,
    B,
    Inputs,
    M,
    Q,
    attend,
    compose_parts,
    example_history,
    random_inputs,
)
from attnx.laws.check import fixed_random_state

pytestmark = pytest.mark.usefixtures("float64")

# What a memory is made of is not attention's business: scopes that differ in their sources alone are one here.
OTHER_SOURCES = ("encoder_decoder", "history")
ALIKE = ("scorer", "normalizer")  # attention knows what they declare
FACTORS: dict[str, Any] = {
    "scorer": "plain",
    "normalizer": "plain",
    "scope": [
        ("local", {"window": 1}),
        ("local", {"window": 1, "center": "predictive"}),
        *((name, {}) for name in registry.names("scope") if name not in ("local", *OTHER_SOURCES)),
    ],
}


# What parts do alone, whichever they are with: tested in combinations in which every part occurs.
LAWS_OF_PARTS = (
    "gradients_are_derivatives",
    "inputs_are_not_modified",
    "bfloat16_is_supported",
    "calls_leave_no_state",
    "equal_calls_agree",
)


LAWS = [law.method for law in AttentionLaws.collect() if law.method not in LAWS_OF_PARTS]


def test_attention_obeys_its_laws(combination):
    for law in LAWS:
        with fixed_random_state(torch.float64):
            getattr(AttentionLaws(combination), law)()


def test_attention_obeys_the_laws_of_its_parts(sample_combination):
    for law in LAWS_OF_PARTS:
        with fixed_random_state(torch.float64):
            getattr(AttentionLaws(sample_combination), law)()


@pytest.fixture(params=["additive", "dot", "coverage"])
def simple(request):
    """One whose parts do not matter: without a projection, with one, and with a past."""
    return compose_parts({"scorer": request.param, "scope": "local", "normalizer": "softmax"})


@pytest.mark.parametrize(
    ("dtype", "has_autocast"),  # all narrow in bfloat16 is a law of each part
    [(torch.float16, False), (torch.float16, True), (torch.bfloat16, True)],
    ids=["float16", "autocast to float16", "autocast to bfloat16"],
)
@pytest.mark.parametrize("scorer", registry.names("scorer"))
def test_16_bits_hold_contexts_and_gradients(scorer, has_autocast, dtype):
    """Of every normalizer, where queries and values are about 10 and a score may be in the thousands."""
    for normalizer in registry.names("normalizer"):
        attention = compose_parts({"scorer": scorer, "scope": "global", "normalizer": normalizer}, 32, 32).float()
        inputs = [10 * torch.randn(B, 5, WIDTH, dtype=torch.float32), 10 * torch.randn(B, M, 32, dtype=torch.float32)]
        if not has_autocast:
            attention, inputs = attention.to(dtype), [tensor.to(dtype) for tensor in inputs]
        leaves = [*(tensor.requires_grad_() for tensor in inputs), *attention.parameters()]
        with torch.autocast("cpu", dtype, enabled=has_autocast):
            memory = attention.make_memory(inputs[1], MEMORY_MASK)
            context = attention(inputs[0], memory, history=attention.init_history(memory)).context
        context.float().mean().backward()
        assert context.dtype == dtype
        assert context.isfinite().all(), normalizer
        assert all(leaf.grad is None or leaf.grad.isfinite().all() for leaf in leaves), normalizer


def test_steps_count_from_zero(simple):
    queries, states, values = random_inputs()
    left_out = attend(simple, Inputs(queries, states, values))
    torch.testing.assert_close(
        attend(simple, Inputs(queries, states, values), steps=torch.arange(Q)).context, left_out.context
    )


def test_values_default_to_the_states(simple):
    queries, states, _ = random_inputs()
    torch.testing.assert_close(
        attend(simple, Inputs(queries, states, None)).context, attend(simple, Inputs(queries, states, states)).context
    )


def test_weights_are_returned_on_request_only(simple):
    queries, states, values = random_inputs()
    memory = simple.make_memory(states, MEMORY_MASK, values)
    history = simple.init_history(memory)
    plain = simple(queries, memory, history=history)
    assert plain.weights is None
    assert plain.scores is None
    torch.testing.assert_close(plain.context, simple(queries, memory, history=history, need_weights=True).context)


def test_everything_is_present_by_default(simple):
    queries, states, values = random_inputs()
    memory = simple.make_memory(states, values=values)
    assert memory.mask.all()
    expected = attend(simple, Inputs(queries, states, values), torch.ones(B, M, dtype=torch.bool))
    actual = simple(queries, memory, history=example_history(states, memory.mask))
    torch.testing.assert_close(actual.context, expected.context)


def test_dropout_drops_weights_after_normalizing(simple):
    """A mask of the caller's multiplies the weights that make the context, and not those that are shown."""
    queries, states, values = random_inputs()
    keep = torch.bernoulli(torch.full((B, Q, M), 0.5)) * 2
    result = attend(simple, Inputs(queries, states, values), dropout_mask=keep)
    torch.testing.assert_close(result.weights, attend(simple, Inputs(queries, states, values)).weights)
    torch.testing.assert_close(
        result.context, (result.weights * keep) @ values.masked_fill(~MEMORY_MASK[..., None], 0.0)
    )


def test_dropout_applies_in_training_only():
    """While training, each weight is dropped or scaled by 1 / (1 - rate); evaluation drops nothing."""
    attention = build(query_size=WIDTH, memory_size=KEYS, dropout=0.5)
    queries, states, _ = random_inputs()
    memory = attention.make_memory(states, values=torch.eye(M).expand(B, M, M))  # a context is then its weights
    result = attention(queries, memory, need_weights=True)
    dropped = result.context == 0
    assert dropped.any()
    assert not dropped.all()
    torch.testing.assert_close(result.context[~dropped], 2 * result.weights[~dropped])
    attention.eval()
    torch.testing.assert_close(attention(queries, memory).context, result.weights)


def test_projections_are_added_where_widths_differ(plain_scorer):
    """``auto`` adds one linear map iff the scorer needs equal widths and they differ; ``never`` refuses then."""
    equal = registry.describe("scorer", plain_scorer[0]).declarations["requires_equal_dims"]
    for query_size in (WIDTH, KEYS):
        expected = equal and query_size != KEYS
        sizes = (query_size, KEYS, KEYS)
        auto = build_attention(plain_scorer, "global", "softmax", *sizes, {"projection": "auto"})
        assert isinstance(auto.project, nn.Linear) == expected
        if expected:
            with pytest.raises(UserError, match=f"equal widths, but the query has {WIDTH} and the memory {KEYS}"):
                build_attention(plain_scorer, "global", "softmax", *sizes, {"projection": "never"})
        else:
            never = build_attention(plain_scorer, "global", "softmax", *sizes, {"projection": "never"})
            assert not list(never.project.parameters())


def test_the_python_interface_adds_no_projection(plain_scorer):
    if registry.describe("scorer", plain_scorer[0]).declarations["requires_equal_dims"]:
        with pytest.raises(UserError, match="equal widths"):
            build(scorer=plain_scorer, query_size=WIDTH, memory_size=KEYS)
    build(scorer=plain_scorer, query_size=KEYS, memory_size=KEYS)


def test_a_part_is_given_by_name_with_options_or_as_an_instance():
    """The three spellings make the same module."""
    queries, states, values = random_inputs()
    scorer = registry.build("scorer", ("mlp", {"hidden_sizes": [19]}), query_size=WIDTH, memory_size=KEYS)
    by_instance = build(scorer=scorer, query_size=WIDTH, memory_size=KEYS)
    for spelling in (("mlp", {"hidden_sizes": [19]}), {"name": "mlp", "hidden_sizes": [19]}):
        by_name = build(scorer=spelling, query_size=WIDTH, memory_size=KEYS)
        by_name.load_state_dict(by_instance.state_dict())
        torch.testing.assert_close(
            attend(by_name, Inputs(queries, states, values)).context,
            attend(by_instance, Inputs(queries, states, values)).context,
        )
    assert [name for name, _ in build(query_size=WIDTH, memory_size=KEYS).named_children()][:3] == [
        "scorer",
        "scope",
        "normalizer",
    ]


def test_no_attention_is_a_constant():
    """The baseline gives its one position at every step, for any query."""
    constant = registry.build("attention", "none")
    last = torch.randn(B, 1, VALUES)
    memory = constant.make_memory(last, torch.ones(B, 1, dtype=torch.bool), last)
    assert isinstance(memory, Memory)
    result = constant(torch.randn(B, Q, 0), memory, need_weights=True)
    assert result.weights is None
    assert torch.equal(result.context, last.expand(B, Q, VALUES))
