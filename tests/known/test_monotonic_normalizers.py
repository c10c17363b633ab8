"""Normalizers that read the step before: ``monotonic``, ``stepwise_monotonic``, ``mocha`` and ``forward``, by hand."""

import math

import pytest
import torch
from torch import Tensor

from attnx.attention.normalizers.forward import Forward
from attnx.attention.normalizers.mocha import Mocha
from attnx.attention.normalizers.monotonic import Monotonic
from attnx.attention.normalizers.stepwise_monotonic import StepwiseMonotonic
from attnx.ops import hard_monotonic_alignment, monotonic_alignment

# Odds of 1 to 1, 3 to 1 and 1 to 3 at every step: p = (1/2, 3/4, 1/4), to stay in ``stepwise_monotonic``. Energies of a
# chunk have these exponentials, too: 1, 3, 1/3.
SCORES = torch.tensor([0.0, math.log(3), -math.log(3)]).expand(1, 2, 3)
LOGS = torch.tensor([0.0, math.log(3), math.log(2)]).expand(1, 2, 3)  # exponentials 1, 3 and 2
ALL = torch.ones(1, 2, 3, dtype=torch.bool)
FIRST = torch.tensor([[1.0, 0.0, 0.0]])
START = Forward().init_carry(ALL[:, 0])


def test_the_expected_alignment():
    """Equations 11 to 14 by hand.

    Step 1: q = (1, 1/2, 1/8), a = (1/2, 3/8, 1/32).
    Step 2: q = (1/2, 1/4 + 3/8, 5/32 + 1/32), a = (1/4, 15/32, 3/64).
    """
    weights, carry = Monotonic(noise=0.0)(SCORES, ALL, FIRST)
    expected = torch.tensor([[[1 / 2, 3 / 8, 1 / 32], [1 / 4, 15 / 32, 3 / 64]]])
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(carry, expected[:, 1])


@pytest.mark.parametrize(("part", "last"), [(Monotonic, 1 / 19 * 2 / 11), (StepwiseMonotonic, 1 / 19)])
def test_temperature_and_bias_change_the_odds(part, last):
    """A temperature of 1/2 squares the odds, 9 to 1 of the second position; a bias of log 2 doubles them."""
    normalizer = part(noise=0.0, bias=math.log(2), temperature=0.5)
    weights, _ = normalizer(SCORES[:, :1], ALL[:, :1], torch.tensor([[0.0, 1.0, 0.0]]))
    torch.testing.assert_close(weights, torch.tensor([[[0, 18 / 19, last]]]))


def test_evaluation_reads_one_position_or_none():
    """From the last position on the first with p >= 1/2, which may be the last one itself; after the end nothing."""
    high, low = 1.0, -1.0
    scores = torch.tensor([[[low, high, high], [high, high, low], [high, low, high], [high, high, low], [high] * 3]])
    allowed_mask = torch.ones(1, 5, 3, dtype=torch.bool)
    weights, carry = Monotonic().eval()(scores, allowed_mask, FIRST)
    assert weights.tolist() == [[[0, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]]
    assert carry.tolist() == [[0, 0, 0]]


def test_a_forbidden_position_is_passed():
    allowed_mask = torch.tensor([[[True, False, True]]])
    weights, _ = Monotonic(noise=0.0)(torch.zeros(1, 1, 3), allowed_mask, FIRST)
    torch.testing.assert_close(weights, torch.tensor([[[1 / 2, 0, 1 / 4]]]))


def test_noise_is_for_training():
    normalizer = Monotonic(noise=1.0)
    first, second = (normalizer(SCORES, ALL, FIRST)[0] for _ in range(2))
    assert not torch.equal(first, second)
    normalizer.eval()
    assert torch.equal(normalizer(SCORES, ALL, FIRST)[0], normalizer(SCORES, ALL, FIRST)[0])


def by_recurrence(stop: Tensor, start: Tensor) -> Tensor:
    """Equations 13 and 14, one position after another."""
    alignments, previous = [], start
    for step in range(stop.shape[1]):
        reached, row = torch.zeros(len(stop), dtype=stop.dtype), []
        for position in range(stop.shape[2]):
            passed = 1 - stop[:, step, position - 1] if position else 0.0
            reached = passed * reached + previous[:, position]
            row.append(stop[:, step, position] * reached)
        previous = torch.stack(row, 1)
        alignments.append(previous)
    return torch.stack(alignments, 1)


@pytest.mark.parametrize("spread", [0.1, 3.0, 100.0])
def test_the_scan_equals_the_recurrence(spread):
    """Also where p is 0 or 1 to double precision, and the product of 1 - p over 997 positions underflows."""
    torch.manual_seed(0)
    stop = torch.sigmoid(spread * torch.randn(2, 3, 997, dtype=torch.float64))
    start = torch.softmax(torch.randn(2, 997, dtype=torch.float64), -1)
    actual, expected = monotonic_alignment(stop, start), by_recurrence(stop, start)
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-300)
    single = monotonic_alignment(stop.float(), start.float())
    torch.testing.assert_close(single.double(), expected, rtol=1e-4, atol=1e-7)


def test_what_is_past_a_certain_stop_still_moves():
    """The product of all 1 - p is 0 from position 2 on, where the step before read: division would give 0 / 0."""
    alignment = monotonic_alignment(torch.tensor([[[0.0, 1.0, 0.25, 0.5]]]), torch.tensor([[0.0, 0.0, 1.0, 0.0]]))
    torch.testing.assert_close(alignment, torch.tensor([[[0, 0, 1 / 4, 3 / 8]]]))


def test_the_hard_alignment_is_the_expected_one_of_certain_stops():
    torch.manual_seed(0)
    stop = torch.bernoulli(torch.full((7, 13, 11), 0.2))
    start = torch.eye(11)[:7]
    assert torch.equal(hard_monotonic_alignment(stop, start), monotonic_alignment(stop, start))


@pytest.mark.parametrize("part", [Monotonic, Mocha, StepwiseMonotonic])
def test_a_whole_number_is_a_bias(part):
    """As a command line gives it: ``normalizer.bias=-2``."""
    parameters = dict(part(bias=-2).named_parameters())
    assert [value.item() for name, value in parameters.items() if name.endswith("bias")] == [-2.0]


def test_the_expected_stepwise_alignment():
    """Stay with p or move by one; the last position stays: (1/2, 1/2, 0), (1/4, 1/4 + 3/8, 1/8), and so on."""
    scores, allowed_mask = SCORES[:, :1].expand(1, 3, 3), ALL[:, :1].expand(1, 3, 3)
    weights, carry = StepwiseMonotonic(noise=0.0)(scores, allowed_mask, FIRST)
    third = [1 / 8, 1 / 8 + 5 / 8 * 3 / 4, 1 / 8 + 5 / 8 * 1 / 4]
    expected = torch.tensor([[[1 / 2, 1 / 2, 0], [1 / 4, 5 / 8, 1 / 8], third]])
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(carry, expected[:, 2])


def test_evaluation_stays_or_moves_by_one():
    """p >= 1/2 stays; the last position that a step may read is not left, one that it may not read is."""
    scores = torch.tensor([[[-1.0, -1, -1], [1, -1, -1], [-1, -1, -1], [-1, 1, -1], [-1, -1, -1]]])
    first, ends, every = [True, False, False], [True, False, True], [True] * 3
    weights, _ = StepwiseMonotonic().eval()(scores, torch.tensor([[first, every, ends, ends, every]]), FIRST)
    assert weights.tolist() == [[[1, 0, 0], [1, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 1]]]


def test_the_weights_of_chunks():
    """Equations 16 to 23: ends (1/2, 3/8, 1/32), shares of the chunks (1), (1/4, 3/4) and (9/10, 1/10)."""
    weights, carry = Mocha(window=2, noise=0.0)(SCORES[:, :1], ALL[:, :1], FIRST)
    expected = torch.tensor([[[1 / 2 + 3 / 8 * 1 / 4, 3 / 8 * 3 / 4 + 1 / 32 * 9 / 10, 1 / 32 * 1 / 10]]])
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(carry, torch.tensor([[1 / 2, 3 / 8, 1 / 32]]))


def test_the_scale_multiplies_the_energies_of_a_chunk():
    """At 2 exponentials are squared: the chunk (1, 9) has shares (1/10, 9/10). Ends stay where they are."""
    mocha = Mocha(window=2).eval()
    torch.nn.init.constant_(mocha.scale, 2.0)
    weights, _ = mocha(SCORES[:, :1] - torch.tensor([1.0, 0.0, 0.0]), ALL[:, :1], FIRST)
    odds = math.exp(-2) / 9
    torch.testing.assert_close(weights, torch.tensor([[[odds / (1 + odds), 1 / (1 + odds), 0]]]))


def test_a_chunk_of_one_position_is_monotonic():
    """So is a chunk that is longer than the memory no mistake: it begins where the memory does."""
    expected, _ = Monotonic(noise=0.0)(SCORES, ALL, FIRST)
    torch.testing.assert_close(Mocha(window=1, noise=0.0)(SCORES, ALL, FIRST)[0], expected)
    long, longer = (Mocha(window=window, noise=0.0)(SCORES, ALL, FIRST)[0] for window in (3, 97))
    torch.testing.assert_close(long, longer)
    torch.testing.assert_close(long.sum(-1), expected.sum(-1))


def test_a_chunk_far_below_the_others_is_read():
    """Its exponentials are 0 beside exp(300), the highest of the row; within the chunk they are (1/2, 1/2)."""
    scores = torch.tensor([[[-300.0, -300.0, 300.0]]])
    mocha = Mocha(window=2, noise=0.0, bias=600.0)  # so that every position is an end
    weights, _ = mocha(scores, ALL[:, :1], torch.tensor([[0.0, 1.0, 0.0]]))
    torch.testing.assert_close(weights, torch.tensor([[[1 / 2, 1 / 2, 0]]]))


def test_the_weights_within_reach():
    """Step 1 reaches (1, 1, 0): (1, 3, 0) / 4. Step 2 reaches (1/4, 1, 3/4): (1/4, 3, 3/2) / (19/4)."""
    weights, carry = Forward()(LOGS, ALL, START)
    expected = torch.tensor([[[1 / 4, 3 / 4, 0], [1 / 19, 12 / 19, 6 / 19]]])
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(carry.exp(), expected[:, 1])


def test_a_low_score_among_all_may_be_the_highest_in_reach():
    """exp(-300) of the softmax is 0 in single precision; within reach it is all there is."""
    weights, _ = Forward()(torch.tensor([[[-300.0, -300.0, 0.0]]]), ALL[:, :1], START)
    torch.testing.assert_close(weights, torch.tensor([[[1 / 2, 1 / 2, 0]]]))


def test_a_step_that_reaches_nothing_leaves_the_alignment():
    """Step 1 may read the last position alone, which is too far; step 2 starts at the first position."""
    allowed_mask = torch.tensor([[[False, False, True], [True, True, True]]])
    weights, _ = Forward()(LOGS, allowed_mask, START)
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
