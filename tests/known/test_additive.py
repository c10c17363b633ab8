"""Bahdanau et al. 2015, appendix A.1.2: a(s, h) = v . tanh(W s + U h), with weights set by hand."""

import math

import pytest
import torch

from attnx.attention.factory import build
from attnx.attention.scorers.additive import Additive

# tanh of these is plain: tanh(x) = (e^2x - 1) / (e^2x + 1).
TANH_HALF = math.log(3) / 2  # (3 - 1) / (3 + 1) = 1/2
TANH_3_5 = math.log(2)  # (4 - 1) / (4 + 1) = 3/5
TANH_4_5 = math.log(3)  # (9 - 1) / (9 + 1) = 4/5


@pytest.fixture
def scorer():
    """W = (1, 0), U = the identity, v = (5, -10): the query moves the first hidden unit alone."""
    scorer = Additive(query_size=1, memory_size=2, hidden_size=2)
    with torch.no_grad():
        scorer.query.weight.copy_(torch.tensor([[1.0], [0.0]]))
        scorer.memory.weight.copy_(torch.eye(2))
        scorer.v.copy_(torch.tensor([5.0, -10.0]))
    return scorer


def test_scores(scorer):
    queries = torch.tensor([[TANH_HALF], [0.0]])
    memory = torch.tensor([[0.0, TANH_3_5], [TANH_HALF, 0.0], [-TANH_HALF, -TANH_4_5]])
    scores = scorer.score(scorer.project_queries(queries), scorer.project_keys(memory))
    expected = [
        # 5 tanh(q + m1) - 10 tanh(m2)
        [5 * 1 / 2 - 10 * 3 / 5, 5 * 4 / 5 - 0, 0 + 10 * 4 / 5],
        [0 - 10 * 3 / 5, 5 * 1 / 2 - 0, -5 * 1 / 2 + 10 * 4 / 5],
    ]
    torch.testing.assert_close(scores, torch.tensor(expected))


def test_there_is_no_bias(scorer):
    """Appendix A.1.2 leaves them out."""
    assert sorted(name for name, _ in scorer.named_parameters()) == ["memory.weight", "query.weight", "v"]


def test_context():
    """Equations 5 and 6: scores 0, ln 2 and ln 5 weigh 1/8, 2/8 and 5/8, and the context is their mean."""
    attention = build(scorer="additive", query_size=1, memory_size=1)
    scorer = Additive(query_size=1, memory_size=1, hidden_size=1)
    with torch.no_grad():
        scorer.query.weight.zero_()
        scorer.memory.weight.fill_(1.0)
        scorer.v.fill_(10.0)
    attention.scorer = scorer
    # 10 tanh(u) = x at u = atanh(x / 10).
    states = torch.tensor([[[math.atanh(math.log(x) / 10)] for x in (1, 2, 5)]])
    values = torch.tensor([[[8.0, 0.0], [16.0, 0.0], [0.0, 24.0]]])
    read = attention(torch.zeros(1, 1, 1), attention.make_memory(states, values=values), need_weights=True)
    torch.testing.assert_close(read.weights, torch.tensor([[[1 / 8, 2 / 8, 5 / 8]]]))
    torch.testing.assert_close(read.context, torch.tensor([[[1.0 + 4.0, 15.0]]]))
