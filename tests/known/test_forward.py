"""The normalizer ``forward``, worked by hand."""

import math

import pytest
import torch

from attnx.attention.normalizers.forward import Forward

# Exponentials 1, 3 and 2 at every step.
SCORES = torch.tensor([0.0, math.log(3), math.log(2)]).expand(1, 2, 3)
ALL = torch.ones(1, 2, 3, dtype=torch.bool)
FIRST = Forward().init_carry(ALL[:, 0])


def test_weights_by_hand():
    """Step 1 reaches (1, 1, 0): (1, 3, 0) / 4. Step 2 reaches (1/4, 1, 3/4): (1/4, 3, 3/2) / (19/4)."""
    weights, carry = Forward()(SCORES, ALL, FIRST)
    expected = torch.tensor([[[1 / 4, 3 / 4, 0], [1 / 19, 12 / 19, 6 / 19]]])
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(carry.exp(), expected[:, 1])


def test_a_low_score_among_all_may_be_the_highest_in_reach():
    """exp(-300) of the softmax is 0 in single precision; within reach it is all there is."""
    weights, _ = Forward()(torch.tensor([[[-300.0, -300.0, 0.0]]]), ALL[:, :1], FIRST)
    torch.testing.assert_close(weights, torch.tensor([[[1 / 2, 1 / 2, 0]]]))


def test_a_step_that_reaches_nothing_leaves_the_alignment():
    """Step 1 may read the last position alone, which is too far; step 2 starts at the first position."""
    allowed_mask = torch.tensor([[[False, False, True], [True, True, True]]])
    weights, _ = Forward()(SCORES, allowed_mask, FIRST)
    torch.testing.assert_close(weights, torch.tensor([[[0, 0, 0], [1 / 4, 3 / 4, 0]]]))


@pytest.mark.parametrize(("steps", "positions", "scale"), [(400, 100, 2.0), (200, 200, 10.0), (60, 60, 30.0)])
def test_long_targets_and_spread_scores_have_the_weights_and_gradients_of_double_precision(steps, positions, scale):
    torch.manual_seed(2)
    scores = scale * torch.randn(5, steps, positions, dtype=torch.float64)
    mask, target = torch.ones_like(scores, dtype=torch.bool), torch.randn(5, steps, positions)
    results = []
    for dtype in (torch.float64, torch.float32):
        inputs = scores.detach().to(dtype, copy=True).requires_grad_()
        weights, _ = Forward()(inputs, mask, Forward().init_carry(mask[:, 0]))
        (weights * target).sum().backward()
        results.append((weights.detach().double(), inputs.grad.double()))
    torch.testing.assert_close(*(weights for weights, _ in results), atol=1e-3, rtol=0)
    torch.testing.assert_close(*(grad for _, grad in results), atol=1e-2, rtol=0)
