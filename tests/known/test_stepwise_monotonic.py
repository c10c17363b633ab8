"""The normalizer ``stepwise_monotonic``, worked by hand."""

import math

import torch

from attnx.attention.normalizers.stepwise_monotonic import StepwiseMonotonic

# Odds of 1 to 1, 3 to 1 and 1 to 3 to stay: p = (1/2, 3/4, 1/4).
SCORES = torch.tensor([0.0, math.log(3), -math.log(3)]).expand(1, 3, 3)
ALL = torch.ones(1, 3, 3, dtype=torch.bool)
FIRST = torch.tensor([[1.0, 0.0, 0.0]])


def test_the_expected_alignment():
    """Stay with p or move by one; the last position stays: (1/2, 1/2, 0), (1/4, 1/4 + 3/8, 1/8), and so on."""
    weights, carry = StepwiseMonotonic(noise=0.0)(SCORES, ALL, FIRST)
    third = [1 / 8, 1 / 8 + 5 / 8 * 3 / 4, 1 / 8 + 5 / 8 * 1 / 4]
    expected = torch.tensor([[[1 / 2, 1 / 2, 0], [1 / 4, 5 / 8, 1 / 8], third]])
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(carry, expected[:, 2])


def test_evaluation_stays_or_moves_by_one():
    """p >= 1/2 stays; the last position is not left."""
    scores = torch.tensor([[[1.0, -1, -1], [-1, -1, -1], [-1, -1, -1], [-1, -1, -1]]])
    weights, _ = StepwiseMonotonic().eval()(scores, torch.ones(1, 4, 3, dtype=torch.bool), FIRST)
    assert weights.tolist() == [[[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]]


def test_temperature_and_bias_change_the_odds():
    """A temperature of 1/2 squares the odds, 9 to 1 of the second position; a bias of log 2 doubles them."""
    normalizer = StepwiseMonotonic(noise=0.0, bias=math.log(2), temperature=0.5)
    weights, _ = normalizer(SCORES[:, :1], ALL[:, :1], torch.tensor([[0.0, 1.0, 0.0]]))
    torch.testing.assert_close(weights, torch.tensor([[[0, 18 / 19, 1 / 19]]]))
