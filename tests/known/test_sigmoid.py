"""The normalizer ``sigmoid``, worked by hand."""

from __future__ import annotations

import math

import torch

from attnx.attention.normalizers.sigmoid import Sigmoid

# A score is a logarithm of odds: 3 to 1, 1 to 4, even.
SCORES = torch.tensor([math.log(3), -math.log(4), 0.0])
ALL = torch.ones(3, dtype=torch.bool)


def test_weights_are_logistic() -> None:
    torch.testing.assert_close(Sigmoid()(SCORES, ALL), torch.tensor([3 / 4, 1 / 5, 1 / 2]))


def test_positions_do_not_compete() -> None:
    """Forbidding one leaves the others as they were."""
    result = Sigmoid()(SCORES, torch.tensor([True, False, True]))
    torch.testing.assert_close(result, torch.tensor([3 / 4, 0.0, 1 / 2]))
    assert Sigmoid()(SCORES, ~ALL).tolist() == [0.0, 0.0, 0.0]


def test_the_temperature_divides_scores() -> None:
    """At T = 1/2 odds are squared: 9 to 1 and 1 to 16."""
    torch.testing.assert_close(Sigmoid(temperature=0.5)(SCORES, ALL), torch.tensor([9 / 10, 1 / 17, 1 / 2]))


def test_the_bias_shifts_scores() -> None:
    """Minus log 3, for 3 positions, divides the odds by 3; it comes after the temperature."""
    bias = -math.log(3)
    torch.testing.assert_close(Sigmoid(bias=bias)(SCORES, ALL), torch.tensor([1 / 2, 1 / 13, 1 / 4]))
    result = Sigmoid(bias=bias, temperature=0.5)(SCORES, ALL)
    torch.testing.assert_close(result, torch.tensor([3 / 4, 1 / 49, 1 / 4]))


def test_gradient() -> None:
    """a (1 - a): 3/16, and 0 where nothing may be read."""
    scores = SCORES.clone().requires_grad_()
    Sigmoid()(scores, torch.tensor([True, False, True])).sum().backward()
    torch.testing.assert_close(scores.grad, torch.tensor([3 / 16, 0.0, 1 / 4]))
