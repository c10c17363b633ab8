"""Normalizers, worked by hand: ``softmax``, ``softmax_with_sink``, ``sigmoid``, ``exponential`` and ``hard``."""

import math
from typing import Any

import pytest
import torch

from attnx.attention import build
from attnx.attention.normalizers.exponential import Exponential
from attnx.attention.normalizers.hard import Hard
from attnx.attention.normalizers.sigmoid import Sigmoid
from attnx.attention.normalizers.softmax import Softmax
from attnx.attention.normalizers.softmax_with_sink import SoftmaxWithSink

LOGS = torch.tensor([math.log(1), math.log(2), math.log(5)])
MIDDLE = torch.tensor([math.log(1), math.log(5), math.log(2)])  # the highest score stands in the middle
ODDS = torch.tensor([math.log(3), -math.log(4), 0.0])  # a score is a logarithm of odds: 3 to 1, 1 to 4, even
ALL = torch.ones(3, dtype=torch.bool)


LOG_3 = math.log(3)
ODD = torch.tensor([True, False, True])
BY_HAND: dict[str, tuple[Any, torch.Tensor, torch.Tensor, list[float]]] = {
    "exponentials 1, 2 and 5 over their sum": (Softmax(), LOGS, ALL, [1 / 8, 2 / 8, 5 / 8]),
    "a shift of all changes nothing": (Softmax(), LOGS + 89.0, ALL, [1 / 8, 2 / 8, 5 / 8]),
    "the sink's exp(0) is one more in the sum": (SoftmaxWithSink("one"), LOGS, ALL, [1 / 9, 2 / 9, 5 / 9]),
    "a learned sink starts there": (SoftmaxWithSink("learned"), LOGS, ALL, [1 / 9, 2 / 9, 5 / 9]),
    "sigmoid weights are logistic": (Sigmoid(), ODDS, ALL, [3 / 4, 1 / 5, 1 / 2]),
    "a bias of minus log 3 divides the odds by 3": (Sigmoid(bias=-LOG_3), ODDS, ALL, [1 / 2, 1 / 13, 1 / 4]),
    "after the temperature": (Sigmoid(bias=-LOG_3, temperature=0.5), ODDS, ALL, [3 / 4, 1 / 49, 1 / 4]),
    "the log of the length is subtracted": (Sigmoid(log_length=True), ODDS, ALL, [1 / 2, 1 / 13, 1 / 4]),
    "that of what is allowed": (Sigmoid(log_length=True), ODDS, ODD, [3 / 5, 0.0, 1 / 3]),
    "exponential weights are exponentials": (Exponential(), ODDS, ALL, [3.0, 1 / 4, 1.0]),
    "sigmoid positions do not compete": (Sigmoid(), ODDS, ODD, [3 / 4, 0.0, 1 / 2]),
    "exponential ones neither": (Exponential(), ODDS, ODD, [3.0, 0.0, 1.0]),
}


@pytest.mark.parametrize(("normalizer", "scores", "allowed_mask", "expected"), BY_HAND.values(), ids=BY_HAND)
def test_weights_by_hand(normalizer, scores, allowed_mask, expected):
    """And where nothing is allowed, they are 0."""
    torch.testing.assert_close(normalizer(scores, allowed_mask), torch.tensor(expected))
    assert normalizer(scores, ~ALL).tolist() == [0.0, 0.0, 0.0]


def test_a_learned_sink_of_log_4():
    """4 of the sink, 1 and 2 of what is allowed: sevenths."""
    normalizer = SoftmaxWithSink()
    torch.nn.init.constant_(normalizer.sink, math.log(4))
    result = normalizer(LOGS, torch.tensor([True, True, False]))
    torch.testing.assert_close(result, torch.tensor([1 / 7, 2 / 7, 0.0]))


def test_low_scores_read_nothing_and_high_ones_read_as_softmax():
    normalizer = SoftmaxWithSink("one")
    assert normalizer(LOGS - 1e4, ALL).tolist() == [0.0, 0.0, 0.0]
    torch.testing.assert_close(normalizer(LOGS + 1e4, ALL), torch.softmax(LOGS + 1e4, -1))


def test_every_head_has_a_sink_of_its_own():
    attention = build(query_size=6, memory_size=6, scorer="dot", normalizer="softmax_with_sink", heads=3)
    assert len([name for name, _ in attention.named_parameters() if name.endswith("normalizer.sink")]) == 3


def test_equal_scores_start_near_the_mean_at_any_length():
    """1 / (1 + n) each, so that a row sums to n / (n + 1)."""
    for length in (7, 997):
        weights = Sigmoid(log_length=True)(torch.zeros(length), torch.ones(length, dtype=torch.bool))
        torch.testing.assert_close(weights, torch.full((length,), 1 / (1 + length)))


def test_a_learned_bias_starts_where_it_was_set():
    """Minus log 3 divides the odds by 3; its gradient is the sum of a (1 - a), here 1/4 + 12/169 + 3/16."""
    normalizer = Sigmoid(bias=-math.log(3), learned=True)
    weights = normalizer(ODDS, ALL)
    torch.testing.assert_close(weights, torch.tensor([1 / 2, 1 / 13, 1 / 4]))
    weights.sum().backward()
    torch.testing.assert_close(normalizer.bias.grad, torch.tensor([1 / 4 + 12 / 169 + 3 / 16]))


def test_high_scores_count_as_11():
    weights = Exponential()(torch.tensor([10.0, 11.0, 1000.0]), ALL)
    torch.testing.assert_close(weights, torch.tensor([10.0, 11.0, 11.0]).exp())


def test_a_row_of_float16_sums_to_256_at_most():
    """Weights 384 and 128 halve, so that values up to 256 have a finite sum; 96 and 32 stay as they are."""
    scores = torch.tensor([[384.0, 128.0], [96.0, 32.0]]).log()
    allowed_mask = torch.ones(2, dtype=torch.bool)
    weights = Exponential()(scores.half(), allowed_mask)
    torch.testing.assert_close(weights.float(), torch.tensor([[192.0, 64.0], [96.0, 32.0]]), rtol=1e-2, atol=0)
    torch.testing.assert_close(Exponential()(scores, allowed_mask), scores.exp())
    torch.testing.assert_close(Exponential()(scores.bfloat16(), allowed_mask), scores.bfloat16().exp())


@pytest.mark.parametrize("bias", [None, "distance"])
def test_autocast_multiplies_in_float16(bias):
    """Scores with a bias are in single precision there, and their weights are multiplied by values in float16."""
    attention: Any = build(scorer="dot", normalizer="exponential", bias=bias, query_size=3, memory_size=3)
    with torch.autocast("cpu", torch.float16):
        context = attention(torch.full((1, 2, 3), 50.0), attention.make_memory(torch.full((1, 5, 3), 50.0))).context
    assert context.dtype == torch.float16
    torch.testing.assert_close(context, torch.full((1, 2, 3), 256 * 50.0).half(), rtol=1e-2, atol=0)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 7.0])
def test_the_highest_score_gets_all_weight(temperature):
    """Exactly, and at any temperature."""
    assert Hard(temperature)(MIDDLE, ALL).tolist() == [0.0, 1.0, 0.0]
    assert Hard(temperature)(MIDDLE, torch.tensor([True, False, True])).tolist() == [0.0, 0.0, 1.0]
    assert Hard(temperature)(MIDDLE, ~ALL).tolist() == [0.0, 0.0, 0.0]


def test_the_first_of_equal_scores_wins():
    """Also of 997, where a softmax could not tell them from their neighbors, and never a forbidden one."""
    assert Hard()(torch.tensor([2.0, 3.0, 3.0]), ALL).tolist() == [0.0, 1.0, 0.0]
    assert Hard()(torch.zeros(3), torch.tensor([False, True, True])).tolist() == [0.0, 1.0, 0.0]
    assert Hard()(torch.full((3,), -1e4), torch.tensor([False, False, True])).tolist() == [0.0, 0.0, 1.0]
    scores = torch.zeros(997)
    scores[[101, 503]] = 1e-9
    assert Hard()(scores, torch.tensor(True)).nonzero().tolist() == [[101]]


@pytest.mark.parametrize(
    ("temperature", "allowed_mask", "expected"),
    [
        # That of the softmax 1/8, 5/8, 2/8, for its last weight: (-2/64, -10/64, 12/64).
        (1.0, ALL, [-2 / 64, -10 / 64, 12 / 64]),
        # At T = 1/2 the softmax is 1/30, 25/30, 4/30, and its gradient is divided by T.
        (0.5, ALL, [-8 / 900, -200 / 900, 208 / 900]),
        # The softmax of what is allowed alone: 1/3 and 2/3; and where nothing is, nothing.
        (1.0, ODD, [-2 / 9, 0.0, 2 / 9]),
        (1.0, ~ALL, [0.0, 0.0, 0.0]),
    ],
)
def test_the_gradient_of_hard(temperature, allowed_mask, expected):
    scores = MIDDLE.clone().requires_grad_()
    Hard(temperature)(scores, allowed_mask)[2].backward()
    torch.testing.assert_close(scores.grad, torch.tensor(expected))


def test_the_gradient_of_hard_is_that_of_softmax():
    """Whatever the loss makes of the weights."""
    scores = torch.randn(5, 3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    allowed_mask = torch.arange(7) < torch.tensor([7, 3, 1, 0, 5])[:, None, None]
    factors = torch.arange(105.0, dtype=torch.float64).view(5, 3, 7)
    gradients = []
    for normalizer in (Hard(0.7), Softmax(0.7)):
        inputs = scores.clone().requires_grad_()
        (normalizer(inputs, allowed_mask) * factors).sum().backward()
        gradients.append(inputs.grad)
    torch.testing.assert_close(*gradients)
