"""Vaswani et al. 2017, equation 1: softmax(Q K / sqrt(d)) V."""

import math

import pytest
import torch

from attnx.attention.factory import build
from attnx.attention.scorers.scaled import Scaled


def test_equation_1():
    """d = 2: q . k / sqrt(2) with q = (0, sqrt 2) is the key's second unit; 0 and ln 3 weigh 1/4 and 3/4."""
    attention = build(scorer="scaled", query_size=2, memory_size=2)
    states = torch.tensor([[[5.0, 0.0], [7.0, math.log(3)]]])
    values = torch.tensor([[[4.0, 0.0, 8.0], [0.0, 4.0, 16.0]]])
    memory = attention.make_memory(states, values=values)
    read = attention(torch.tensor([[[0.0, math.sqrt(2)]]]), memory, need_weights=True)
    torch.testing.assert_close(read.scores, torch.tensor([[[0.0, math.log(3)]]]))
    torch.testing.assert_close(read.weights, torch.tensor([[[1 / 4, 3 / 4]]]))
    torch.testing.assert_close(read.context, torch.tensor([[[1.0, 3.0, 14.0]]]))


@pytest.mark.parametrize(("scale", "expected"), [("sqrt", 18 / 3), ("dimension", 18 / 9), ("learned", 18 / 3)])
def test_a_scale_divides_the_scores(scale, expected):
    """Nine products of 1 and 2 sum to 18, over sqrt(9) or over 9."""
    scorer = Scaled(memory_size=9, scale=scale)
    compared = scorer.score(scorer.project_queries(torch.ones(1, 9)), scorer.project_keys(torch.full((1, 9), 2.0)))
    torch.testing.assert_close(compared, torch.tensor([[expected]]))


def test_only_a_learned_scale_is_a_parameter():
    assert [len(list(Scaled(memory_size=9, scale=scale).parameters())) for scale in ("sqrt", "dimension")] == [0, 0]
    scorer = Scaled(memory_size=9, scale="learned")
    assert len(list(scorer.parameters())) == 1
    with torch.no_grad():
        scorer.scale.fill_(2.0)
    compared = scorer.score(scorer.project_queries(torch.ones(1, 9)), scorer.project_keys(torch.ones(1, 9)))
    torch.testing.assert_close(compared, torch.tensor([[18.0]]))
