"""Several heads: Vaswani et al. 2017, section 3.2.2, by hand."""

import math

import pytest
import torch
from torch import nn

from attnx.attention.factory import build
from attnx.attention.multi_head import MultiHeadAttention
from attnx.attention.scorers.additive import Additive
from attnx.errors import UserError

LN3 = math.log(3)
SOURCE = torch.tensor([[3, 5, 7], [11, 13, 0]])
INPUTS = torch.tensor([[1, 5, 3, 8], [1, 7, 2, 2]])


def plain(heads: MultiHeadAttention) -> MultiHeadAttention:
    """Make every projection the identity."""
    for linear in (heads.query, heads.keys, heads.values, heads.out):
        nn.init.eye_(linear.weight)
    return heads


def test_two_heads_by_hand():
    """Units apart: the first head scores 0 and ln 3, the second ln 3 and 0; each reads its own half of the values."""
    attention = plain(build(scorer="dot", heads=2, query_size=2, memory_size=2, values_size=4))
    states = torch.tensor([[[0.0, LN3], [LN3, 0.0]]])
    values = torch.tensor([[[4.0, 8.0, 12.0, 16.0], [0.0, 16.0, 20.0, 24.0]]])
    read = attention(torch.ones(1, 1, 2), attention.make_memory(states, values=values), need_weights=True)
    torch.testing.assert_close(read.weights, torch.tensor([[[[1 / 4, 3 / 4]], [[3 / 4, 1 / 4]]]]))
    torch.testing.assert_close(read.scores, torch.tensor([[[[0.0, LN3]], [[LN3, 0.0]]]]))
    torch.testing.assert_close(read.context, torch.tensor([[[1.0, 2.0 + 12.0, 9.0 + 5.0, 12.0 + 6.0]]]))


def test_a_head_for_each_feature_weighs_each_feature():
    """Multi-dimensional weights: each feature has its own score of each position, and its own weights."""
    attention = plain(build(scorer="dot", heads=3, query_size=3, memory_size=3))
    states = torch.tensor([[[LN3, 2.0, 0.0], [0.0, 6.0, LN3]]])
    read = attention(torch.tensor([[[1.0, 0.0, 1.0]]]), attention.make_memory(states), need_weights=True)
    torch.testing.assert_close(read.weights[0, :, 0], torch.tensor([[3 / 4, 1 / 4], [1 / 2, 1 / 2], [1 / 4, 3 / 4]]))
    torch.testing.assert_close(read.context, torch.tensor([[[LN3 * 3 / 4, 4.0, LN3 * 3 / 4]]]))


@pytest.mark.parametrize("scorer", ["dot", "additive"])  # heads without parameters are folded into the batch
def test_one_row_is_shared_by_all(scorer):
    """A memory of one row is read by each row of queries, and one row of queries reads each row of a memory."""
    attention = build(scorer=scorer, heads=2, query_size=4, memory_size=4)
    queries, states = torch.randn(3, 5, 4), torch.randn(3, 7, 4)
    for few_queries, few_states in ((queries, states[:1]), (queries[:1], states)):
        shared = attention(few_queries, attention.make_memory(few_states), need_weights=True)
        expanded = attention(
            few_queries.expand(3, 5, 4), attention.make_memory(few_states.expand(3, 7, 4)), need_weights=True
        )
        torch.testing.assert_close((shared.context, shared.weights), (expanded.context, expanded.weights))


def test_two_heads_are_two_attentions():
    """With projections: each head is an attention over Q_i q, K_i m and V_i v, and O joins what they read."""
    both = build(scorer="additive", scope="local", heads=2, query_size=5, memory_size=14, values_size=22)
    queries, states, values = torch.randn(2, 3, 5), torch.randn(2, 7, 14), torch.randn(2, 7, 22)
    contexts = []
    for i, part in enumerate(both.heads):
        alone = build(scorer=part.scorer, scope="local", query_size=7, memory_size=7)
        memory = alone.make_memory(
            states @ both.keys.weight[7 * i : 7 * i + 7].T, values=values @ both.values.weight[11 * i : 11 * i + 11].T
        )
        contexts.append(alone(queries @ both.query.weight[7 * i : 7 * i + 7].T, memory).context)
    result = both(queries, both.make_memory(states, values=values))
    torch.testing.assert_close(result.context, torch.cat(contexts, -1) @ both.out.weight.T)


def test_one_mask_and_one_step_broadcast_over_rows():
    """As they do with one head: what is 1 in front is the same for every row."""
    heads = build(scorer="additive", scope=("local", {"window": 1}), heads=2, query_size=6, memory_size=6)
    queries, memory = torch.randn(3, 5, 6), heads.make_memory(torch.randn(3, 7, 6))
    allowed_mask, steps = torch.rand(1, 5, 7) < 0.9, torch.arange(5)[None]
    shared = heads(queries, memory, allowed_mask=allowed_mask, steps=steps).context
    expanded = heads(queries, memory, allowed_mask=allowed_mask.expand(3, -1, -1), steps=steps.expand(3, -1)).context
    torch.testing.assert_close(shared, expanded)


def test_dropout_is_drawn_per_head():
    """Values are the identity, so that a context is its head's weights: kept ones are doubled."""
    attention = plain(build(scorer="dot", heads=2, query_size=2, memory_size=2, values_size=6))
    values = torch.eye(3).repeat(1, 2)[None]
    memory, keep = (
        attention.make_memory(torch.zeros(1, 3, 2), values=values),
        torch.tensor([[[[2.0, 0, 2]], [[0, 2, 0.0]]]]),
    )
    context = attention(torch.ones(1, 1, 2), memory, dropout_mask=keep).context
    torch.testing.assert_close(context.flatten(), torch.tensor([2 / 3, 0, 2 / 3, 0, 2 / 3, 0]))


def test_each_head_has_its_own_gradients():
    """Named or given as an instance, a scorer's parameters are not shared among heads."""
    for scorer in ("additive", Additive(7, 7)):
        first, second = build(scorer=scorer, heads=2, query_size=5, memory_size=14).heads
        assert first.scorer.v is not second.scorer.v


@pytest.mark.parametrize(
    ("sizes", "what"),
    [
        ({"memory_size": 7}, "the width of the values, 7"),
        ({"memory_size": 7, "values_size": 6}, "the width of the memory, 7"),
    ],
)
def test_a_width_not_divisible_by_heads_is_refused(sizes, what):
    with pytest.raises(UserError, match=rf"attention\.heads=2 does not divide {what}; choose another number of heads"):
        build(heads=2, query_size=5, **sizes)


def test_a_model_refuses_a_width_not_divisible_by_heads(build_model):
    """A history's memory is as wide as the decoder's state, 26 here."""
    build_model(scope="history", attention=("standard", {"heads": 2}), model={"bridge": "zeros"})
    with pytest.raises(UserError, match=r"attention\.heads=3 does not divide the width of the values, 26"):
        build_model(scope="history", attention=("standard", {"heads": 3}), decoder={"hidden_size": 26})


@pytest.mark.parametrize("scorer", ["additive", "coverage"])
@pytest.mark.parametrize("scope", ["global", "encoder_decoder"])
def test_weights_of_every_head(build_model, scope, scorer):
    """(b, h, t, m), of whatever is read, and a past of every head."""
    model = build_model(scope=scope, scorer=scorer, attention=("standard", {"heads": 2}))
    weights = model(SOURCE, SOURCE > 0, INPUTS, need_weights=True).weights
    positions = 3 if scope == "global" else 7
    assert weights.shape == (2, 2, 4, positions)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 4))
    assert not torch.allclose(weights[:, 0], weights[:, 1])
    past = model.init_state(SOURCE, SOURCE > 0).history
    assert past is None if scorer == "additive" else past.cumulative.shape == (2, 2, 3)


def test_one_head_equals_plain_attention():
    """No projections around a single one."""
    assert not isinstance(build(query_size=5, memory_size=7), MultiHeadAttention)
