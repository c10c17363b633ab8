"""The normalizer ``softmax``, worked by hand."""

import math

import torch

from attnx.attention.normalizers.softmax import Softmax

LOGS = torch.tensor([math.log(1), math.log(2), math.log(5)])
ALL = torch.ones(3, dtype=torch.bool)


def test_exponentials_over_their_sum():
    """exp gives 1, 2 and 5, of 8."""
    torch.testing.assert_close(Softmax()(LOGS, ALL), torch.tensor([1 / 8, 2 / 8, 5 / 8]))


def test_softmax_is_shift_invariant():
    torch.testing.assert_close(Softmax()(LOGS + 89.0, ALL), torch.tensor([1 / 8, 2 / 8, 5 / 8]))
