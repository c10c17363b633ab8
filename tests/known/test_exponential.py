"""The normalizer ``exponential``, worked by hand: scores are logarithms of weights."""

from __future__ import annotations

import math

import torch

from attnx.attention.normalizers.exponential import Exponential

SCORES = torch.tensor([math.log(3), -math.log(4), 0.0])
ALL = torch.ones(3, dtype=torch.bool)


def test_weights_are_exponentials() -> None:
    torch.testing.assert_close(Exponential()(SCORES, ALL), torch.tensor([3.0, 1 / 4, 1.0]))


def test_positions_do_not_compete() -> None:
    """Forbidding one leaves the others as they were."""
    result = Exponential()(SCORES, torch.tensor([True, False, True]))
    torch.testing.assert_close(result, torch.tensor([3.0, 0.0, 1.0]))
    assert Exponential()(SCORES, ~ALL).tolist() == [0.0, 0.0, 0.0]


def test_the_temperature_divides_scores() -> None:
    """At T = 1/2 weights are squared."""
    torch.testing.assert_close(Exponential(temperature=0.5)(SCORES, ALL), torch.tensor([9.0, 1 / 16, 1.0]))


def test_high_scores_count_as_16() -> None:
    weights = Exponential()(torch.tensor([10.0, 11.0, 1000.0]), ALL)
    torch.testing.assert_close(weights, torch.tensor([10.0, 11.0, 11.0]).exp())
