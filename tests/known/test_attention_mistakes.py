"""Attention reports tensors of wrong shapes and types in one line with the expected shape."""

from typing import Any

import pytest
import torch

from attnx import UserError
from attnx.attention import build

QUERIES, STATES = torch.zeros(2, 5, 13), torch.zeros(2, 7, 26)
BOOL = torch.bool


@pytest.fixture(params=[1, 2], ids=["one head", "two heads"])
def attention(request):
    return build(scorer=("mlp", {"depth": 2}), scope="local", query_size=13, memory_size=26, heads=request.param)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ((torch.zeros(7, 26),), r"states: \(7, 26\) float32; expected \(b, m, 26\) float"),
        ((torch.zeros(2, 7, 25),), r"states: \(2, 7, 25\) float32; expected \(b, m, 26\)"),
        ((STATES.long(),), r"states: \(2, 7, 26\) int64; expected \(b, m, 26\) float"),
        (([[1.0]],), r"states: a list; expected \(b, m, 26\)"),
        ((STATES, torch.ones(2, 7)), r"memory_mask: \(2, 7\) float32; expected \(2, 7\) bool"),
        ((STATES, torch.ones(2, 6, dtype=BOOL)), r"memory_mask: \(2, 6\) bool; expected \(2, 7\) bool"),
        ((STATES, None, torch.zeros(2, 6, 26)), r"values: \(2, 6, 26\) float32; expected \(2, 7, (v|26)\)"),
        ((STATES, None, torch.zeros(7, 26)), r"values: \(7, 26\)"),
        ((STATES, None, STATES.long()), r"values: \(2, 7, 26\) int64"),
        ((STATES, [[True]]), r"memory_mask: a list"),
    ],
)
def test_an_invalid_memory_tensor_is_refused(attention, value, message):
    with pytest.raises(UserError, match=f"^make_memory: {message}"):
        attention.make_memory(*value)


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (torch.zeros(5, 13), r"queries: \(5, 13\) float32; expected \(b, q, 13\) float"),
        # As many as the memory has rows: torch would take each query for a row, and say nothing.
        (torch.zeros(2, 13), r"queries: \(2, 13\)"),
        (torch.zeros(2, 5, 12), r"queries: \(2, 5, 12\) float32; expected \(b, q, 13\)"),
        (torch.zeros(3, 5, 13), r"the queries have 3 rows, the memory 2"),
        (QUERIES.int(), r"queries: \(2, 5, 13\) int32"),
        ([1.0], r"queries: a list"),
    ],
)
def test_an_invalid_query_is_refused(attention, queries, message):
    memory = attention.make_memory(STATES)
    with pytest.raises(UserError, match=f"^attention: {message}"):
        attention(queries, memory)


def test_another_module_is_no_scorer():
    message = "^scorer: Linear has no requires_equal_dims; docs/add-a-part.md says what a scorer has$"
    with pytest.raises(UserError, match=message):
        build(query_size=13, memory_size=26, scorer=torch.nn.Linear(13, 26))


def test_another_object_is_no_memory(attention):
    with pytest.raises(
        UserError, match=r"^the memory is a Tensor; make one of states by attention\.make_memory\(states\)"
    ):
        attention(QUERIES, STATES)


@pytest.mark.parametrize(
    "allowed_mask",
    [
        torch.ones(2, 5, 7),
        torch.ones(2, 5, 6, dtype=BOOL),
        torch.ones(2, 4, 7, dtype=BOOL),
        torch.ones(3, 5, 7, dtype=BOOL),
        torch.ones(1, 2, 5, 7, dtype=BOOL),
    ],
    ids=["numbers", "narrow", "steps", "rows", "axes"],
)
def test_an_invalid_mask_is_refused(attention, allowed_mask):
    with pytest.raises(UserError, match=r"^attention: allowed_mask: .*; expected \(2, 5, 7\) bool"):
        attention(QUERIES, attention.make_memory(STATES), allowed_mask=allowed_mask)


@pytest.mark.parametrize("steps", [torch.arange(4), torch.zeros(3, 5, dtype=torch.int64), torch.zeros(5)])
def test_invalid_steps_are_refused(attention, steps):
    with pytest.raises(UserError, match=r"^attention: steps: .*; expected \(2, 5\) int"):
        attention(QUERIES, attention.make_memory(STATES), steps=steps)


@pytest.mark.parametrize("options", [{"heads": 2}, {"hops": 2}], ids=str)
def test_heads_and_hops_know_the_width_of_the_values(options):
    attention: Any = build(query_size=4, memory_size=6, **options)
    with pytest.raises(UserError, match=r"^make_memory: values: \(2, 5, 8\) float32; expected \((2, 5|b, m), 6\)"):
        attention.make_memory(torch.zeros(2, 5, 6), values=torch.zeros(2, 5, 8))


@pytest.mark.parametrize("normalizer", ["monotonic", "mocha", "stepwise_monotonic", "forward"])
def test_one_memory_row_may_serve_recurrent_parts(normalizer):
    attention: Any = build(query_size=4, memory_size=6, normalizer=normalizer).train()
    assert attention(torch.zeros(2, 3, 4), attention.make_memory(torch.zeros(1, 5, 6))).context.shape == (2, 3, 6)


@pytest.mark.parametrize("normalizer", ["softmax", "monotonic", "mocha", "stepwise_monotonic", "forward"])
def test_no_queries_have_no_contexts(normalizer):
    attention: Any = build(query_size=4, memory_size=6, normalizer=normalizer).train()
    read = attention(torch.zeros(2, 0, 4), attention.make_memory(torch.zeros(2, 5, 6)), need_weights=True)
    assert (read.context.shape, read.weights.shape) == ((2, 0, 6), (2, 0, 5))


@pytest.mark.parametrize("heads", [1, 2])
def test_several_queries_have_no_common_history_unless_one_is_passed(heads):
    """Else the weights of the first step would have no effect on the second's."""
    attention: Any = build(scorer="location", query_size=13, memory_size=26, heads=heads)
    memory = attention.make_memory(STATES)
    message = "^attention: 5 queries without a history, but Location reads the weights of the step before; call it once"
    with pytest.raises(UserError, match=message):
        attention(QUERIES, memory)
    assert attention(QUERIES[:, :1], memory).context.shape == (2, 1, 26)
    assert attention(QUERIES, memory, history=attention.init_history(memory)).context.shape == (2, 5, 26)


def test_one_memory_row_may_serve_many_queries(attention):
    read = attention(QUERIES, attention.make_memory(STATES[:1]), allowed_mask=torch.ones(5, 7, dtype=BOOL))
    assert read.context.shape == (2, 5, 26)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"query_size": 0}, "query_size=0: expected a whole number, 1 or more"),
        ({"values_size": 0}, "values_size=0: expected a whole number, 1 or more"),
        ({"memory_size": "3"}, "memory_size='3': expected a whole number"),
        ({"heads": 0}, "attention.heads=0: expected a whole number from 1 to 1,024"),
        ({"scorer": None}, "scorer=None: expected a name, or a name with options"),
        ({"scorer": ("mlp",)}, r"scorer=\('mlp',\): expected a name, or a name with options"),
        ({"scorer": ("mlp", "depth=2")}, "expected a name, or a name with options"),
    ],
)
def test_an_invalid_attention_cannot_be_built(options, message):
    with pytest.raises(UserError, match=message):
        build(**{"query_size": 3, "memory_size": 3, **options})
