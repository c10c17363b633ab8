"""The normalizer ``monotonic``, worked by hand and compared with its recurrence."""

import math

import pytest
import torch
from torch import Tensor

from attnx.attention.normalizers.mocha import Mocha
from attnx.attention.normalizers.monotonic import Monotonic
from attnx.attention.normalizers.stepwise_monotonic import StepwiseMonotonic
from attnx.ops import hard_monotonic_alignment, monotonic_alignment

# Odds of 1 to 1, 3 to 1 and 1 to 3: p = (1/2, 3/4, 1/4) at every step.
SCORES = torch.tensor([0.0, math.log(3), -math.log(3)]).expand(1, 2, 3)
ALL = torch.ones(1, 2, 3, dtype=torch.bool)
FIRST = torch.tensor([[1.0, 0.0, 0.0]])


def test_the_expected_alignment():
    """Equations 11 to 14 by hand.

    Step 1: q = (1, 1/2, 1/8), a = (1/2, 3/8, 1/32).
    Step 2: q = (1/2, 1/4 + 3/8, 5/32 + 1/32), a = (1/4, 15/32, 3/64).
    """
    weights, carry = Monotonic(noise=0.0)(SCORES, ALL, FIRST)
    expected = torch.tensor([[[1 / 2, 3 / 8, 1 / 32], [1 / 4, 15 / 32, 3 / 64]]])
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(carry, expected[:, 1])


def test_temperature_and_bias_change_the_odds():
    """A temperature of 1/2 squares the odds, 9 to 1 of the second position; a bias of log 2 doubles them."""
    normalizer = Monotonic(noise=0.0, bias=math.log(2), temperature=0.5)
    weights, _ = normalizer(SCORES[:, :1], ALL[:, :1], torch.tensor([[0.0, 1.0, 0.0]]))
    torch.testing.assert_close(weights, torch.tensor([[[0, 18 / 19, 1 / 19 * 2 / 11]]]))


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
