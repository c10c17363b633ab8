"""The normalizer ``sigmoid``, worked by hand."""

import math

import torch

from attnx.attention.normalizers.sigmoid import Sigmoid

# A score is a logarithm of odds: 3 to 1, 1 to 4, even.
SCORES = torch.tensor([math.log(3), -math.log(4), 0.0])
ALL = torch.ones(3, dtype=torch.bool)


def test_weights_are_logistic():
    torch.testing.assert_close(Sigmoid()(SCORES, ALL), torch.tensor([3 / 4, 1 / 5, 1 / 2]))


def test_positions_do_not_compete():
    """Forbidding one leaves the others as they were."""
    result = Sigmoid()(SCORES, torch.tensor([True, False, True]))
    torch.testing.assert_close(result, torch.tensor([3 / 4, 0.0, 1 / 2]))
    assert Sigmoid()(SCORES, ~ALL).tolist() == [0.0, 0.0, 0.0]


def test_the_bias_shifts_scores():
    """Minus log 3, for 3 positions, divides the odds by 3; it comes after the temperature."""
    bias = -math.log(3)
    torch.testing.assert_close(Sigmoid(bias=bias)(SCORES, ALL), torch.tensor([1 / 2, 1 / 13, 1 / 4]))
    result = Sigmoid(bias=bias, temperature=0.5)(SCORES, ALL)
    torch.testing.assert_close(result, torch.tensor([3 / 4, 1 / 49, 1 / 4]))


def test_the_log_of_the_length_is_subtracted():
    """Odds of 3, 1/4 and 1 over 3 positions: 1, 1/12 and 1/3. Over the two that are allowed: 3/2 and 1/2."""
    normalizer = Sigmoid(log_length=True)
    torch.testing.assert_close(normalizer(SCORES, ALL), torch.tensor([1 / 2, 1 / 13, 1 / 4]))
    result = normalizer(SCORES, torch.tensor([True, False, True]))
    torch.testing.assert_close(result, torch.tensor([3 / 5, 0.0, 1 / 3]))


def test_equal_scores_start_near_the_mean_at_any_length():
    """1 / (1 + n) each, so that a row sums to n / (n + 1)."""
    for length in (7, 997):
        weights = Sigmoid(log_length=True)(torch.zeros(length), torch.ones(length, dtype=torch.bool))
        torch.testing.assert_close(weights, torch.full((length,), 1 / (1 + length)))


def test_a_learned_bias_starts_where_it_was_set():
    """Minus log 3 divides the odds by 3; its gradient is the sum of a (1 - a), here 1/4 + 12/169 + 3/16."""
    normalizer = Sigmoid(bias=-math.log(3), learned=True)
    weights = normalizer(SCORES, ALL)
    torch.testing.assert_close(weights, torch.tensor([1 / 2, 1 / 13, 1 / 4]))
    weights.sum().backward()
    torch.testing.assert_close(normalizer.bias.grad, torch.tensor([1 / 4 + 12 / 169 + 3 / 16]))
