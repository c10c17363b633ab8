"""The normalizer ``exponential``, worked by hand: scores are logarithms of weights."""

import math
from typing import Any

import pytest
import torch

from attnx.attention import build
from attnx.attention.normalizers.exponential import Exponential

SCORES = torch.tensor([math.log(3), -math.log(4), 0.0])
ALL = torch.ones(3, dtype=torch.bool)


def test_weights_are_exponentials():
    torch.testing.assert_close(Exponential()(SCORES, ALL), torch.tensor([3.0, 1 / 4, 1.0]))


def test_positions_do_not_compete():
    """Forbidding one leaves the others as they were."""
    result = Exponential()(SCORES, torch.tensor([True, False, True]))
    torch.testing.assert_close(result, torch.tensor([3.0, 0.0, 1.0]))
    assert Exponential()(SCORES, ~ALL).tolist() == [0.0, 0.0, 0.0]


def test_high_scores_count_as_11():
    weights = Exponential()(torch.tensor([10.0, 11.0, 1000.0]), ALL)
    torch.testing.assert_close(weights, torch.tensor([10.0, 11.0, 11.0]).exp())


def test_a_row_of_float16_sums_to_256_at_most():
    """Weights 384 and 128 halve, so that values up to 256 have a finite sum; 96 and 32 stay as they are."""
    scores = torch.tensor([[384.0, 128.0], [96.0, 32.0]]).log()
    allowed_mask = torch.ones(2, dtype=torch.bool)
    weights = Exponential()(scores.half(), allowed_mask)
    torch.testing.assert_close(weights.float(), torch.tensor([[192.0, 64.0], [96.0, 32.0]]), rtol=1e-2, atol=0)
    torch.testing.assert_close(Exponential()(scores, allowed_mask), scores.exp())
    torch.testing.assert_close(Exponential()(scores.bfloat16(), allowed_mask), scores.bfloat16().exp())


@pytest.mark.parametrize("bias", [None, "distance"])
def test_autocast_multiplies_in_float16(bias):
    """Scores with a bias are in single precision there, and their weights are multiplied by values in float16."""
    attention: Any = build(scorer="dot", normalizer="exponential", bias=bias, query_size=3, memory_size=3)
    with torch.autocast("cpu", torch.float16):
        context = attention(torch.full((1, 2, 3), 50.0), attention.make_memory(torch.full((1, 5, 3), 50.0))).context
    assert context.dtype == torch.float16
    torch.testing.assert_close(context, torch.full((1, 2, 3), 256 * 50.0).half(), rtol=1e-2, atol=0)
