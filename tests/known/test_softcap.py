"""A bound on scores, ``attention.softcap``, by hand."""

import math

import pytest
import torch

from attnx import accel
from attnx.accel.attention.sdpa import Sdpa
from attnx.attention import build

# Scores 0 and 1; half of them has a tanh of 0 and tanh(1/2) = (e - 1) / (e + 1).
QUERIES, STATES = torch.ones(1, 1, 1), torch.tensor([[[0.0], [1.0], [1e4], [-1e4]]])
CAPPED = torch.tensor([0.0, 2 * (math.e - 1) / (math.e + 1), 2.0, -2.0])


def test_scores_are_bounded():
    attention = build(scorer="dot", query_size=1, memory_size=1, softcap=2.0)
    read = attention(QUERIES, attention.make_memory(STATES), need_weights=True)
    torch.testing.assert_close(read.scores[0, 0], CAPPED)
    torch.testing.assert_close(read.weights[0, 0], torch.softmax(CAPPED, -1))


def test_the_bias_is_added_after():
    """ALiBi of one head takes 1/256 a step: the query of step 0 is 0 to 3 away."""
    attention = build(scorer="dot", query_size=1, memory_size=1, softcap=2.0, bias="alibi")
    read = attention(QUERIES, attention.make_memory(STATES), need_weights=True)
    torch.testing.assert_close(read.scores[0, 0], CAPPED - torch.arange(4) / 256)


@pytest.mark.parametrize("scorer", ["dot", "cosine"])
@pytest.mark.parametrize("heads", [1, 2])
def test_the_kernel_that_cannot_bound_scores_is_left_out(scorer, heads):
    """SDPA has no soft cap: it computes without one, and hands over with one."""
    sizes = {"query_size": 6, "memory_size": 6, "scorer": scorer, "heads": heads}
    queries, states = 9 * torch.randn(2, 3, 6), torch.randn(2, 5, 6)
    plain = accel.enable(build(**sizes))
    assert any(type(kernel) is Sdpa for module in plain.modules() for kernel in getattr(module, "kernels", ()))
    attention = build(**sizes, softcap=0.5)
    expected = attention(queries, attention.make_memory(states)).context
    accel.enable(attention)
    torch.testing.assert_close(attention(queries, attention.make_memory(states)).context, expected)
