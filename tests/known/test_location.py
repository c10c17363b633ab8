"""Chorowski et al. 2015, equations 8 and 9: f = F * a_{t-1}, e = v . tanh(W s + U h + L f), worked by hand."""

import math

import pytest
import torch
from torch import Tensor

from attnx.attention import AttentionHistory
from attnx.attention.scorers.additive import Additive
from attnx.attention.scorers.coverage import Coverage
from attnx.attention.scorers.location import Location
from attnx.errors import UserError

LN2, LN3 = math.log(2), math.log(3)  # tanh(ln 2) = 3/5, tanh(ln 3) = 4/5


def score(scorer: Location, query: float, memory: list[float], last: list[float]) -> list[float]:
    queries, keys = (
        scorer.project_queries(torch.tensor([[[query]]])),
        scorer.project_keys(torch.tensor(memory)[None, :, None]),
    )
    result: Tensor = scorer.score(
        queries, keys, AttentionHistory(torch.tensor([last]), torch.full((1, len(last)), 97.0))
    )
    return result.flatten().tolist()


@pytest.fixture
def scorer():
    """One filter over three positions, (ln 2, 0, ln 3); W = 0, U = 1, L = 2, v = 5."""
    scorer = Location(query_size=1, memory_size=1, hidden_size=1, filters=1, kernel_radius=1)
    with torch.no_grad():
        scorer.additive.query.weight.zero_()
        scorer.additive.memory.weight.fill_(1.0)
        scorer.near.weight.copy_(torch.tensor([[[LN2, 0.0, LN3]]]))
        scorer.location.weight.fill_(2.0)
        scorer.additive.v.fill_(5.0)
    return scorer


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        # The last step read position 1 with 1/2: its left neighbor sees ln 3 / 2, its right one ln 2 / 2; times L = 2.
        ([0, 1 / 2, 0], [5 * 4 / 5, 0, 5 * 3 / 5]),
        # Beyond the ends there is nothing: position 0 was read, and only its right neighbor sees it.
        ([1 / 2, 0, 0], [0, 5 * 3 / 5, 0]),
        ([0, 0, 1 / 2], [0, 5 * 4 / 5, 0]),
        # Both neighbors of position 1: tanh(ln 2 + ln 3) = (36 - 1) / (36 + 1).
        ([1 / 2, 0, 1 / 2], [0, 5 * 35 / 37, 0]),
    ],
)
def test_the_features_follow_the_previous_weights(scorer, last, expected):
    assert score(scorer, 13.0, [0.0, 0.0, 0.0], last) == pytest.approx(expected)


def test_features_add_to_query_and_memory(scorer):
    """L f is (ln 3, 0, ln 2); with h (-ln 3, ln 2, ln 3) and, where W is 1, s = ln 2, it makes tanh of these."""
    assert score(scorer, 13.0, [-LN3, LN2, LN3], [0, 1 / 2, 0]) == pytest.approx([0, 5 * 3 / 5, 5 * 35 / 37])
    torch.nn.init.constant_(scorer.additive.query.weight, 1.0)
    assert score(scorer, LN2, [-LN3, -LN2, -LN2], [0, 1 / 2, 0]) == pytest.approx([5 * 3 / 5, 0, 5 * 3 / 5])


def test_cumulative_weights_are_read_beside_the_previous_ones():
    """Filters (1, 0, 0) of the previous and (0, 0, ln 2) of the sum: at 1 they see ln 3 at 0 and ln 2 at 2."""
    scorer = Location(1, 1, hidden_size=1, filters=1, kernel_radius=1, reads=["previous", "cumulative"])
    with torch.no_grad():
        for parameter in (scorer.additive.query.weight, scorer.additive.memory.weight):
            parameter.zero_()
        scorer.near.weight.copy_(torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.0, LN2]]]))
        scorer.location.weight.fill_(1.0)
        scorer.additive.v.fill_(5.0)
    history = AttentionHistory(torch.tensor([[LN3, 0.0, 0.0]]), torch.tensor([[LN3, 0.0, 1.0]]))
    scores = scorer.score(torch.zeros(1, 1, 1), torch.zeros(1, 3, 1), history)
    # tanh(ln 2 + ln 3) = 35 / 37.
    assert scores[0, 0].tolist() == pytest.approx([0, 5 * 35 / 37, 0])


@pytest.mark.parametrize(("reads", "message"), [([], "name previous"), (["previous"] * 2, "previous")])
def test_what_is_read_is_named_once(reads, message):
    with pytest.raises(UserError, match=message):
        Location(5, 11, reads=reads)


@pytest.mark.parametrize("part", [Location, Coverage])
def test_the_first_step_equals_additive(part):
    """Nothing was read: f is zeros, wherever the filters reach; and what was read of each position is 0."""
    scorer, plain = part(5, 11, hidden_size=7), Additive(5, 11, hidden_size=7)
    plain.load_state_dict(scorer.additive.state_dict())
    queries, memory, nothing = torch.randn(2, 3, 5), torch.randn(2, 13, 11), torch.zeros(2, 13)
    result = scorer.score(
        scorer.project_queries(queries), scorer.project_keys(memory), AttentionHistory(nothing, nothing)
    )
    torch.testing.assert_close(result, plain.score(plain.project_queries(queries), plain.project_keys(memory)))


def test_the_filter_reads_only_its_width():
    """Two filters of 2 * 2 + 1 positions: what was read at position 6 moves the scores of 4 to 8 alone."""
    scorer = Location(5, 11, hidden_size=7, filters=2, kernel_radius=2)
    assert scorer.near.weight.shape == (2, 1, 5)
    keys, last = scorer.project_keys(torch.zeros(1, 11, 11)), torch.eye(11)[6:7]
    result = scorer.score(scorer.project_queries(torch.zeros(1, 1, 5)), keys, AttentionHistory(last, last))
    assert result.nonzero()[:, -1].tolist() == [4, 5, 6, 7, 8]


@pytest.mark.parametrize("sources", [["encoder"], ["encoder", "decoder"]], ids="+".join)
def test_the_model_remembers_the_last_weights(build_model, sources):
    """Those before dropout, of the step before and no other."""
    model = build_model(
        scorer="location", scope=("global", {"sources": sources}), attention=("standard", {"dropout": 0.5})
    )
    source = torch.tensor([[3, 5, 7]])
    state = model.init_state(source, source > 0)
    assert (state.history.previous == 0).all()
    for symbol in (1, 5, 8):
        _, state, read = model.decode_step(torch.tensor([symbol]), state, need_weights=True)
        torch.testing.assert_close(state.history.previous, read.weights[:, 0])


def test_each_source_is_padded_at_its_own_end(build_model):
    """What was read at the end of the source is not near the decoder's first state, which stands behind it."""
    model = build_model(scorer="location", scope="encoder_decoder")
    source = torch.tensor([[3, 5, 7]])
    _, state, _ = model.decode_step(torch.tensor([1]), model.init_state(source, source > 0))
    scores = []
    for last in ([0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]):
        with_history = state._replace(history=state.history._replace(previous=torch.tensor([last])))
        _, _, read = model.decode_step(torch.tensor([5]), with_history, need_weights=True)
        scores.append(read.scores[0, 0])
    assert not torch.allclose(scores[0][:3], scores[1][:3])
    torch.testing.assert_close(scores[0][3:], scores[1][3:])
