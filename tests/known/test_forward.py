"""The normalizer ``forward``, worked by hand."""

from __future__ import annotations

import math

import torch

from attnx.attention.normalizers.forward import Forward

# Exponentials 1, 3 and 2 at every step.
SCORES = torch.tensor([0.0, math.log(3), math.log(2)]).expand(1, 2, 3)
ALL = torch.ones(1, 2, 3, dtype=torch.bool)
FIRST = torch.tensor([[1.0, 0.0, 0.0]])


def test_weights_by_hand() -> None:
    """Step 1 reaches (1, 1, 0): (1, 3, 0) / 4. Step 2 reaches (1/4, 1, 3/4): (1/4, 3, 3/2) / (19/4)."""
    weights, carry = Forward()(SCORES, ALL, FIRST)
    expected = torch.tensor([[[1 / 4, 3 / 4, 0], [1 / 19, 12 / 19, 6 / 19]]])
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(carry, expected[:, 1])


def test_the_temperature_divides_scores() -> None:
    """At T = 1/2 exponentials are squared: (1, 9, 0) / 10."""
    weights, _ = Forward(temperature=0.5)(SCORES[:, :1], ALL[:, :1], FIRST)
    torch.testing.assert_close(weights, torch.tensor([[[1 / 10, 9 / 10, 0]]]))


def test_a_low_score_among_all_may_be_the_highest_in_reach() -> None:
    """exp(-300) of the softmax is 0 in single precision; within reach it is all there is."""
    weights, _ = Forward()(torch.tensor([[[-300.0, -300.0, 0.0]]]), ALL[:, :1], FIRST)
    torch.testing.assert_close(weights, torch.tensor([[[1 / 2, 1 / 2, 0]]]))


def test_a_step_that_reaches_nothing_leaves_the_alignment() -> None:
    """Step 1 may read the last position alone, which is too far; step 2 starts at the first position."""
    allowed_mask = torch.tensor([[[False, False, True], [True, True, True]]])
    weights, _ = Forward()(SCORES, allowed_mask, FIRST)
    torch.testing.assert_close(weights, torch.tensor([[[0, 0, 0], [1 / 4, 3 / 4, 0]]]))
