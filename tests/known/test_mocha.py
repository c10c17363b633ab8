"""The normalizer ``mocha``, worked by hand."""

import math

import torch

from attnx.attention.normalizers.mocha import Mocha
from attnx.attention.normalizers.monotonic import Monotonic

# Odds of 1 to 1, 3 to 1 and 1 to 3, which are the exponentials of the chunk's energies, too: 1, 3, 1/3.
SCORES = torch.tensor([0.0, math.log(3), -math.log(3)]).expand(1, 2, 3)
ALL = torch.ones(1, 2, 3, dtype=torch.bool)
FIRST = torch.tensor([[1.0, 0.0, 0.0]])


def test_weights_by_hand():
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
