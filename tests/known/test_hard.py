"""The normalizer ``hard``: one position forward, a softmax backward."""

import math

import pytest
import torch

from attnx.attention.normalizers.hard import Hard
from attnx.attention.normalizers.softmax import Softmax

LOGS = torch.tensor([math.log(1), math.log(5), math.log(2)])
ALL = torch.ones(3, dtype=torch.bool)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 7.0])
def test_the_highest_score_gets_all_weight(temperature):
    """Exactly, and at any temperature."""
    assert Hard(temperature)(LOGS, ALL).tolist() == [0.0, 1.0, 0.0]
    assert Hard(temperature)(LOGS, torch.tensor([True, False, True])).tolist() == [0.0, 0.0, 1.0]
    assert Hard(temperature)(LOGS, ~ALL).tolist() == [0.0, 0.0, 0.0]


def test_the_first_of_equal_scores_wins():
    """Also of 997, where a softmax could not tell them from their neighbors, and never a forbidden one."""
    assert Hard()(torch.tensor([2.0, 3.0, 3.0]), ALL).tolist() == [0.0, 1.0, 0.0]
    assert Hard()(torch.zeros(3), torch.tensor([False, True, True])).tolist() == [0.0, 1.0, 0.0]
    assert Hard()(torch.full((3,), -1e4), torch.tensor([False, False, True])).tolist() == [0.0, 0.0, 1.0]
    scores = torch.zeros(997)
    scores[[101, 503]] = 1e-9
    assert Hard()(scores, torch.tensor(True)).nonzero().tolist() == [[101]]


def test_gradient():
    """That of the softmax 1/8, 5/8, 2/8, for its last weight: (-2/64, -10/64, 12/64)."""
    scores = LOGS.clone().requires_grad_()
    Hard()(scores, ALL)[2].backward()
    torch.testing.assert_close(scores.grad, torch.tensor([-2 / 64, -10 / 64, 12 / 64]))


def test_the_gradient_uses_the_temperature():
    """At T = 1/2 the softmax is 1/30, 25/30, 4/30, and its gradient is divided by T."""
    scores = LOGS.clone().requires_grad_()
    Hard(temperature=0.5)(scores, ALL)[2].backward()
    torch.testing.assert_close(scores.grad, 2 * torch.tensor([-4 / 900, -100 / 900, 104 / 900]))


def test_the_gradient_covers_only_allowed_positions():
    """The softmax of those alone: 1/3 and 2/3; and where nothing is allowed, nothing."""
    scores = LOGS.clone().requires_grad_()
    Hard()(scores, torch.tensor([True, False, True]))[2].backward()
    torch.testing.assert_close(scores.grad, torch.tensor([-2 / 9, 0.0, 2 / 9]))
    scores.grad = None
    Hard()(scores, ~ALL).sum().backward()
    assert scores.grad.tolist() == [0.0, 0.0, 0.0]


def test_the_gradient_is_that_of_softmax():
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
