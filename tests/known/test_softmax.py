"""The normalizer ``softmax``, worked by hand."""

from __future__ import annotations

import math

import torch

from attnx.attention.normalizers.softmax import Softmax

LOGS = torch.tensor([math.log(1), math.log(2), math.log(5)])
ALL = torch.ones(3, dtype=torch.bool)


def test_exponentials_over_their_sum():
    """exp gives 1, 2 and 5, of 8."""
    torch.testing.assert_close(Softmax()(LOGS, ALL), torch.tensor([1 / 8, 2 / 8, 5 / 8]))


def test_the_sum_covers_only_allowed_positions():
    """Without the 5, 1 and 2 of 3."""
    allowed_mask = torch.tensor([True, True, False])
    torch.testing.assert_close(Softmax()(LOGS, allowed_mask), torch.tensor([1 / 3, 2 / 3, 0.0]))


def test_softmax_is_shift_invariant():
    torch.testing.assert_close(Softmax()(LOGS + 89.0, ALL), torch.tensor([1 / 8, 2 / 8, 5 / 8]))


def test_the_temperature_divides_scores():
    """At T = 1/2 the exponentials are squared: 1, 4 and 25, of 30. At a very high one all weigh the same."""
    torch.testing.assert_close(Softmax(temperature=0.5)(LOGS, ALL), torch.tensor([1 / 30, 4 / 30, 25 / 30]))
    torch.testing.assert_close(Softmax(temperature=1e9)(LOGS, ALL), torch.tensor([1 / 3, 1 / 3, 1 / 3]))


def test_one_allowed_position_gets_all_weight():
    assert Softmax()(LOGS, torch.tensor([True, False, False])).tolist() == [1.0, 0.0, 0.0]


def test_without_allowed_positions_weights_are_zero():
    assert Softmax()(LOGS, ~ALL).tolist() == [0.0, 0.0, 0.0]


def test_gradient():
    """d a_i / d e_j = a_i (1 if i = j else 0) - a_i a_j; of the last weight: (-5/64, -10/64, 15/64)."""
    scores = LOGS.clone().requires_grad_()
    Softmax()(scores, ALL)[2].backward()
    torch.testing.assert_close(scores.grad, torch.tensor([-5 / 64, -10 / 64, 15 / 64]))


def test_the_gradient_is_zero_without_allowed_positions():
    scores = LOGS.clone().requires_grad_()
    Softmax()(scores, ~ALL).sum().backward()
    assert scores.grad.tolist() == [0.0, 0.0, 0.0]
