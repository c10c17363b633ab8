"""Scorers, worked by hand from the equations of their papers."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnx.attention.factory import build
from attnx.attention.scorers.activated_general import ActivatedGeneral
from attnx.attention.scorers.additive import Additive
from attnx.attention.scorers.biased_general import BiasedGeneral
from attnx.attention.scorers.concat import Concat
from attnx.attention.scorers.cosine import Cosine
from attnx.attention.scorers.low_rank import LowRank
from attnx.attention.scorers.mlp import Mlp
from attnx.attention.scorers.multiplicative import Multiplicative
from attnx.attention.scorers.scaled import Scaled


def score(scorer: Any, query: list[float], memory: list[list[float]]) -> Tensor:
    """The scores (m,) of the positions of a memory."""
    return scorer.score(scorer.project_queries(torch.tensor([query])), scorer.project_keys(torch.tensor(memory)))[0]


# Graves et al. 2014, equations 5 and 6: weights by beta times the cosine.


def test_cosine():
    """(3, 4) . (4, 3) / (5 * 5) = 24/25; a right angle is 0, the other way is -1; lengths do not matter."""
    scores = score(Cosine(strength=1.0), [3.0, 4.0], [[4.0, 3.0], [-4.0, 3.0], [-6.0, -8.0], [0.3, 0.4]])
    torch.testing.assert_close(scores, torch.tensor([24 / 25, 0.0, -1.0, 1.0]))


def test_the_strength_of_cosine():
    torch.testing.assert_close(score(Cosine(strength=25.0), [3.0, 4.0], [[4.0, 3.0]]), torch.tensor([24.0]))


def test_a_zero_vector_scores_zero():
    assert score(Cosine(), [3.0, 4.0], [[0.0, 0.0]]).tolist() == [0.0]
    assert score(Cosine(), [0.0, 0.0], [[4.0, 3.0]]).tolist() == [0.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_zero_vector_learns_nothing_in_half_precision(dtype):
    """The least length that it is divided by would be 0 there."""
    vectors = torch.zeros(1, 2, dtype=dtype, requires_grad=True)
    scorer = Cosine()
    scores = scorer.score(scorer.project_queries(torch.ones(1, 2)).to(dtype), scorer.project_keys(vectors))
    scores.sum().backward()
    assert (scores.dtype, scores.tolist()) == (dtype, [[0.0]])
    assert vectors.grad.isfinite().all()


def test_weights_by_cosine():
    """Equation 5: with beta = ln 3, cosines 1, 0 and -1 weigh 3 : 1 : 1/3, that is 9/13, 3/13 and 1/13."""
    attention = build(scorer=("cosine", {"strength": math.log(3)}), query_size=2, memory_size=2)
    memory = attention.make_memory(torch.tensor([[[2.0, 0.0], [0.0, 7.0], [-5.0, 0.0]]]))
    read = attention(torch.tensor([[[11.0, 0.0]]]), memory, need_weights=True)
    torch.testing.assert_close(read.weights, torch.tensor([[[9 / 13, 3 / 13, 1 / 13]]]))


@pytest.mark.parametrize("learned", [True, False])
def test_a_learned_strength(learned):
    """The strength is one number that stays positive however far it is moved."""
    scorer = Cosine(strength=3.0, learned=learned)
    (parameter,) = scorer.parameters()
    assert parameter.requires_grad is learned
    torch.nn.init.constant_(parameter, -7.0)
    assert score(scorer, [1.0], [[1.0]]).item() > 0


# Vaswani et al. 2017, equation 1: softmax(Q K / sqrt(d)) V.


def test_scaled_products():
    """d = 2: q . k / sqrt(2) with q = (0, sqrt 2) is the key's second unit; 0 and ln 3 weigh 1/4 and 3/4."""
    attention = build(scorer="scaled", query_size=2, memory_size=2)
    states = torch.tensor([[[5.0, 0.0], [7.0, math.log(3)]]])
    values = torch.tensor([[[4.0, 0.0, 8.0], [0.0, 4.0, 16.0]]])
    memory = attention.make_memory(states, values=values)
    read = attention(torch.tensor([[[0.0, math.sqrt(2)]]]), memory, need_weights=True)
    torch.testing.assert_close(read.scores, torch.tensor([[[0.0, math.log(3)]]]))
    torch.testing.assert_close(read.weights, torch.tensor([[[1 / 4, 3 / 4]]]))
    torch.testing.assert_close(read.context, torch.tensor([[[1.0, 3.0, 14.0]]]))


@pytest.mark.parametrize(("scale", "expected"), [("sqrt", 18 / 3), ("dimension", 18 / 9), ("learned", 18 / 3)])
def test_a_scale_divides_the_scores(scale, expected):
    """Nine products of 1 and 2 sum to 18, over sqrt(9) or over 9."""
    scorer = Scaled(memory_size=9, scale=scale)
    torch.testing.assert_close(score(scorer, [1.0] * 9, [[2.0] * 9]), torch.tensor([expected]))


def test_only_a_learned_scale_is_a_parameter():
    assert [len(list(Scaled(memory_size=9, scale=scale).parameters())) for scale in ("sqrt", "dimension")] == [0, 0]
    scorer = Scaled(memory_size=9, scale="learned")
    assert len(list(scorer.parameters())) == 1
    torch.nn.init.constant_(scorer.scale, 2.0)
    torch.testing.assert_close(score(scorer, [1.0] * 9, [[1.0] * 9]), torch.tensor([18.0]))


# Bahdanau et al. 2015, appendix A.1.2: a(s, h) = v . tanh(W s + U h).


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


def test_additive(scorer):
    queries = torch.tensor([[TANH_HALF], [0.0]])
    memory = torch.tensor([[0.0, TANH_3_5], [TANH_HALF, 0.0], [-TANH_HALF, -TANH_4_5]])
    scores = scorer.score(scorer.project_queries(queries), scorer.project_keys(memory))
    expected = [
        # 5 tanh(q + m1) - 10 tanh(m2)
        [5 * 1 / 2 - 10 * 3 / 5, 5 * 4 / 5 - 0, 0 + 10 * 4 / 5],
        [0 - 10 * 3 / 5, 5 * 1 / 2 - 0, -5 * 1 / 2 + 10 * 4 / 5],
    ]
    torch.testing.assert_close(scores, torch.tensor(expected))


def test_additive_has_no_bias(scorer):
    """Appendix A.1.2 leaves them out."""
    assert sorted(name for name, _ in scorer.named_parameters()) == ["memory.weight", "query.weight", "v"]


def test_the_context_by_additive():
    """Equations 5 and 6: scores 0, ln 2 and ln 5 weigh 1/8, 2/8 and 5/8, and the context is their mean."""
    attention = build(scorer="additive", query_size=1, memory_size=1)
    scorer = Additive(query_size=1, memory_size=1, hidden_size=1)
    torch.nn.init.zeros_(scorer.query.weight)
    torch.nn.init.constant_(scorer.memory.weight, 1.0)
    torch.nn.init.constant_(scorer.v, 10.0)
    attention.scorer = scorer
    # 10 tanh(u) = x at u = atanh(x / 10).
    states = torch.tensor([[[math.atanh(math.log(x) / 10)] for x in (1, 2, 5)]])
    values = torch.tensor([[[8.0, 0.0], [16.0, 0.0], [0.0, 24.0]]])
    read = attention(torch.zeros(1, 1, 1), attention.make_memory(states, values=values), need_weights=True)
    torch.testing.assert_close(read.weights, torch.tensor([[[1 / 8, 2 / 8, 5 / 8]]]))
    torch.testing.assert_close(read.context, torch.tensor([[[1.0 + 4.0, 15.0]]]))


# Around the bilinear form.


def test_biased_general():
    """W q + b = (2 + 6 + 1, 3 - 2) = (9, 1); (5, 7) . (9, 1) = 52, (-1, 11) . (9, 1) = 2."""
    scorer = BiasedGeneral(query_size=2, memory_size=2)
    with torch.no_grad():
        scorer.query.weight.copy_(torch.tensor([[1.0, 2.0], [0.0, 1.0]]))
        scorer.query.bias.copy_(torch.tensor([1.0, -2.0]))
    assert score(scorer, [2.0, 3.0], [[5.0, 7.0], [-1.0, 11.0]]).tolist() == [52.0, 2.0]
    assert score(scorer, [0.0, 0.0], [[5.0, 7.0], [-1.0, 11.0]]).tolist() == [5 - 14, -1 - 22]  # the bias alone


@pytest.mark.parametrize(("activation", "expected"), [("tanh", [3 / 5, 0.0]), ("sigmoid", [2 / 3, 1 / 2])])
def test_activated_general(activation, expected):
    """W q = (3 ln 2, 0), b = -2 ln 2; the forms are 3 ln 2 - 2 ln 2 = ln 2 and 2 ln 2 - 2 ln 2 = 0."""
    scorer = ActivatedGeneral(query_size=1, memory_size=2, activation=activation)
    with torch.no_grad():
        scorer.query.weight.copy_(torch.tensor([[3 * math.log(2)], [0.0]]))
        scorer.bias.fill_(-2 * math.log(2))
    assert score(scorer, [1.0], [[1.0, 13.0], [2 / 3, 17.0]]).tolist() == pytest.approx(expected)


def test_low_rank():
    """Rank 1: A q = 2 * 2 - 3 = 1 and B m = 5 + 7 + 11, 5 - 11: their products."""
    scorer = LowRank(query_size=2, memory_size=3, rank=1)
    with torch.no_grad():
        scorer.query.weight.copy_(torch.tensor([[2.0, -1.0]]))
        scorer.memory.weight.fill_(1.0)
    assert score(scorer, [2.0, 3.0], [[5.0, 7.0, 11.0], [5.0, 0.0, -11.0]]).tolist() == [23.0, -6.0]


def test_low_rank_is_multiplicative_by_a_matrix_of_that_rank():
    """q . W m with W = A' B."""
    scorer, plain = LowRank(query_size=5, memory_size=7, rank=2), Multiplicative(query_size=5, memory_size=7)
    with torch.no_grad():
        plain.memory.weight.copy_(scorer.query.weight.T @ scorer.memory.weight)
    query, memory = torch.randn(5).tolist(), torch.randn(3, 7).tolist()
    assert score(scorer, query, memory).tolist() == pytest.approx(score(plain, query, memory).tolist(), abs=1e-5)


# One weight for each number, and layers.


def fill(layer: nn.Linear, weight: list[list[float]], bias: list[float] | None = None) -> None:
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight))
        if bias is not None:
            layer.bias.copy_(torch.tensor(bias))


def test_concat_is_linear():
    """w . [m; q] = (2, 3) . (7, 11) + 5 * 13 = 14 + 33 + 65."""
    scorer = Concat(query_size=1, memory_size=2)
    fill(scorer.query, [[5.0]])
    fill(scorer.memory, [[2.0, 3.0]])
    assert score(scorer, [13.0], [[7.0, 11.0], [1.0, -1.0]]).tolist() == [112.0, 64.0]


def test_concat_weights_do_not_depend_on_the_query():
    """What a query adds to every score of its row, a softmax takes away."""
    attention = build(scorer="concat", query_size=3, memory_size=2)
    read = attention(torch.randn(1, 5, 3), attention.make_memory(torch.randn(1, 7, 2)), need_weights=True)
    torch.testing.assert_close(read.weights, read.weights[:, :1].expand(1, 5, 7))


def test_mlp_of_two_layers():
    """relu throughout, q = 2, m = 3.

    First layer: relu((1, -1) * 3 + (2, 1) * 2 + (-4, 2)) = relu(3 + 4 - 4, -3 + 2 + 2) = (3, 1).
    Second: relu(5 * 3 - 2 * 1 - 6, -3 + 1 + 1) = relu(7, -1) = (7, 0). Output: 11 * 7 + 13 * 0 = 77.
    """
    scorer = Mlp(query_size=1, memory_size=1, depth=2, hidden_sizes=[2], activation="relu")
    fill(scorer.memory, [[1.0], [-1.0]], [-4.0, 2.0])
    fill(scorer.query, [[2.0], [1.0]])
    fill(scorer.hidden_layers[1], [[5.0, -2.0], [-1.0, 1.0]], [-6.0, 1.0])
    fill(scorer.hidden_layers[3], [[11.0, 13.0]])
    assert score(scorer, [2.0], [[3.0]]).tolist() == [77.0]


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("tanh", 4 / 5),  # (9 - 1) / (9 + 1)
        ("relu", math.log(3)),
        ("sigmoid", 3 / 4),  # 3 / (3 + 1)
        ("gelu", math.log(3) * (1 + math.erf(math.log(3) / math.sqrt(2))) / 2),  # x times the normal's share below x
    ],
)
def test_activations_at_ln_3(activation, expected):
    scorer = Mlp(query_size=1, memory_size=1, hidden_sizes=[1], activation=activation)
    fill(scorer.memory, [[1.0]], [0.0])
    fill(scorer.query, [[0.0]])
    fill(scorer.hidden_layers[1], [[1.0]])
    torch.testing.assert_close(score(scorer, [0.0], [[math.log(3)]]), torch.tensor([expected]))


@pytest.mark.parametrize(
    ("depth", "widths", "layers"),
    [
        (1, [7], [7]),
        (3, [7], [7, 7, 7]),
        (4, [7, 5], [7, 5, 5, 5]),
        (1, [7, 5], [7, 5]),  # widths name the layers; a depth only adds to them
    ],
)
def test_depth_repeats_the_last_width(depth, widths, layers):
    scorer = Mlp(query_size=3, memory_size=2, depth=depth, hidden_sizes=widths)
    inner = [layer for layer in scorer.hidden_layers if isinstance(layer, nn.Linear)]
    assert [scorer.memory.out_features, *(layer.out_features for layer in inner)] == [*layers, 1]
    assert [layer.in_features for layer in inner] == layers
