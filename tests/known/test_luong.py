"""Luong et al. 2015, equations 5 and 7 to 10: dot, general, concat, local-m and local-p, worked by hand."""

import math

import pytest
import torch

from attnx.attention.factory import build
from attnx.attention.scopes.local import Local
from attnx.attention.scorers.dot import Dot
from attnx.attention.scorers.mlp import Mlp
from attnx.attention.scorers.multiplicative import Multiplicative


def test_dot():
    """Equation 8, dot: (2, 3) . (5, 7) = 10 + 21, (2, 3) . (-1, 1) = 1."""
    scores = Dot().score(torch.tensor([[2.0, 3.0]]), torch.tensor([[5.0, 7.0], [-1.0, 1.0]]))
    assert scores.tolist() == [[31.0, 1.0]]


def test_general():
    """Equation 8, general: W m = (5 - 11, 14 + 11) = (-6, 25); (2, 3) . (-6, 25) = -12 + 75."""
    scorer = Multiplicative(query_size=2, memory_size=3)
    with torch.no_grad():
        scorer.memory.weight.copy_(torch.tensor([[1.0, 0.0, -1.0], [0.0, 2.0, 1.0]]))
    scores = scorer.score(
        scorer.project_queries(torch.tensor([[2.0, 3.0]])), scorer.project_keys(torch.tensor([[5.0, 7.0, 11.0]]))
    )
    assert scores.tolist() == [[63.0]]


def test_concat():
    """Equation 8, concat: v . tanh(W [h_t; h_s]) is ``mlp`` of one layer."""
    scorer = Mlp(query_size=1, memory_size=1, depth=1, hidden_sizes=[2])
    with torch.no_grad():
        scorer.query.weight.copy_(torch.tensor([[1.0], [0.0]]))
        scorer.memory.weight.copy_(torch.tensor([[0.0], [1.0]]))
        scorer.memory.bias.zero_()
        scorer.hidden_layers[-1].weight.copy_(torch.tensor([[5.0, 10.0]]))
    # tanh(ln 2) = 3/5 and tanh(ln 3) = 4/5, so 5 * 3/5 + 10 * 4/5.
    compared = scorer.score(
        scorer.project_queries(torch.tensor([[math.log(2)]])), scorer.project_keys(torch.tensor([[math.log(3)]]))
    )
    torch.testing.assert_close(compared, torch.tensor([[11.0]]))


def test_alignment():
    """Equation 7: scores ln 1, ln 3 and ln 4 weigh 1/8, 3/8 and 4/8; the context is the states' mean by them."""
    attention = build(scorer="dot", query_size=2, memory_size=2)
    states = torch.tensor([[[0.0, 8.0], [math.log(3), 0.0], [math.log(4), 16.0]]])
    read = attention(torch.tensor([[[1.0, 0.0]]]), attention.make_memory(states), need_weights=True)
    torch.testing.assert_close(read.weights, torch.tensor([[[1 / 8, 3 / 8, 4 / 8]]]))
    context = [3 / 8 * math.log(3) + 4 / 8 * math.log(4), 1.0 + 8.0]
    torch.testing.assert_close(read.context, torch.tensor([[context]]))


def test_local_m():
    """p_t = t: the window [p_t - D, p_t + D] moves along, and waits at the end of a shorter source."""
    allowed_mask = Local(query_size=2, window=1)(
        torch.zeros(2, 6, 2), torch.arange(6), torch.tensor([[[1, 1, 1, 1, 1]], [[1, 1, 1, 0, 0]]], dtype=torch.bool)
    ).allowed_mask
    assert allowed_mask.int().tolist() == [
        [[1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 1, 1], [0, 0, 0, 1, 1], [0, 0, 0, 1, 1]],
        [[1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 1, 1, 0, 0], [0, 1, 1, 0, 0], [0, 1, 1, 0, 0], [0, 1, 1, 0, 0]],
    ]


def test_local_m_renormalizes():
    """The softmax runs over the window alone: equal scores at step 0 weigh 1/2 each, at step 2 a third."""
    attention = build(scorer="dot", scope=("local", {"window": 1}), query_size=2, memory_size=2)
    read = attention(torch.zeros(1, 3, 2), attention.make_memory(torch.ones(1, 5, 2)), need_weights=True)
    expected = [[1 / 2, 1 / 2, 0, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0, 0], [0, 1 / 3, 1 / 3, 1 / 3, 0]]
    torch.testing.assert_close(read.weights, torch.tensor([expected]))


@pytest.fixture
def local_p():
    """D = 2, so sigma = D / 2 = 1; sigmoid(v tanh(W h)) is 3/4 at h = ln 3, where tanh(h) = 4/5 and v h' = ln 3."""
    scope = Local(query_size=1, center="predictive", window=2)
    torch.nn.init.constant_(scope.center_predictor[0].weight, 1.0)
    torch.nn.init.constant_(scope.center_predictor[2].weight, math.log(3) / (4 / 5))
    return scope


def test_local_p_center(local_p):
    """Equation 9: p_t = S sigmoid(...) = 8 * 3/4 = 6; the window is 4..8, of which 8 is beyond the end."""
    field = local_p(torch.tensor([[[math.log(3)]]]), torch.tensor([5]), torch.ones(1, 1, 8, dtype=torch.bool))
    assert field.allowed_mask.int().tolist() == [[[0, 0, 0, 0, 1, 1, 1, 1]]]
    # S is the row's own length: 4 * 3/4 = 3, whatever the padding.
    memory_mask = torch.tensor([[[1, 1, 1, 1, 0, 0, 0, 0]]], dtype=torch.bool)
    field = local_p(torch.tensor([[[math.log(3)]]]), torch.tensor([5]), memory_mask)
    assert field.allowed_mask.int().tolist() == [[[0, 1, 1, 1, 0, 0, 0, 0]]]


def test_local_p_gaussian(local_p):
    """Equation 10: weights of 1/4 each are multiplied by exp(-(s - p)^2 / (2 sigma^2)), and not renormalized."""
    attention = build(scorer="dot", scope=local_p, query_size=1, memory_size=1)
    memory = attention.make_memory(torch.zeros(1, 8, 1), values=torch.ones(1, 8, 1))
    read = attention(torch.tensor([[[math.log(3)]]]), memory, need_weights=True)
    inside = [math.exp(-2) / 4, math.exp(-1 / 2) / 4, 1 / 4, math.exp(-1 / 2) / 4]
    torch.testing.assert_close(read.weights, torch.tensor([[[0, 0, 0, 0, *inside]]]))
    torch.testing.assert_close(read.context, torch.tensor([[[sum(inside)]]]))


def test_local_p_center_far_from_the_start_in_16_bits(local_p):
    """16 bits hold every other position above 256, and every fourth above 512; the center is still exact."""
    queries, mask = torch.tensor([[[math.log(3)]]]), torch.ones(1, 1, 1000, dtype=torch.bool)
    with torch.autocast("cpu", torch.bfloat16):
        share = local_p.center_predictor(queries)
        field = local_p(queries, torch.tensor([0]), mask)
    assert share.dtype == torch.bfloat16
    center = 1000 * torch.sigmoid(share.float()).item()
    gains = torch.exp(-((torch.arange(1000) - center) ** 2) / 2)
    inside = field.allowed_mask[0, 0]
    torch.testing.assert_close(field.gain[0, 0][inside], gains[inside])


def test_local_p_learns_its_center(local_p):
    """The Gaussian is what carries a gradient to the center: d/dp exp(-(s - p)^2 / 2) = (s - p) exp(...)."""
    queries = torch.tensor([[[math.log(3)]]], requires_grad=True)
    gain = local_p(queries, torch.tensor([0]), torch.ones(1, 1, 8, dtype=torch.bool)).gain
    gain[0, 0, 7].backward()
    # s - p = 1; dp/dh = S * sigmoid' * v * tanh' = 8 * 3/16 * v * (1 - 16/25).
    slope = 8 * 3 / 16 * (math.log(3) * 5 / 4) * 9 / 25
    torch.testing.assert_close(queries.grad, torch.tensor([[[math.exp(-1 / 2) * slope]]]))


def test_a_window_of_one_position_has_a_sigma_of_a_half():
    """D = 0 would make sigma 0; a half keeps the Gaussian: exp(-(1/2)^2 / (2 * 1/4)) = exp(-1/2)."""
    scope = Local(query_size=1, center="predictive", window=0)
    torch.nn.init.zeros_(scope.center_predictor[2].weight)  # sigmoid(0) = 1/2, p = 5 / 2, read at 2, the even one
    field = scope(torch.zeros(1, 1, 1), torch.tensor([0]), torch.ones(1, 1, 5, dtype=torch.bool))
    assert field.allowed_mask.int().tolist() == [[[0, 0, 1, 0, 0]]]
    torch.testing.assert_close(field.gain[0, 0, 2], torch.tensor(math.exp(-1 / 2)))
