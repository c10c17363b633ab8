"""Graves et al. 2014, equations 5 and 6: weights by beta times the cosine."""

import math

import pytest
import torch
from torch import Tensor

from attnx.attention.factory import build
from attnx.attention.scorers.cosine import Cosine


def score(scorer: Cosine, query: list[float], memory: list[list[float]]) -> Tensor:
    return scorer.score(scorer.project_queries(torch.tensor([query])), scorer.project_keys(torch.tensor(memory)))[0]


def test_cosine():
    """(3, 4) . (4, 3) / (5 * 5) = 24/25; a right angle is 0, the other way is -1; lengths do not matter."""
    scores = score(Cosine(strength=1.0), [3.0, 4.0], [[4.0, 3.0], [-4.0, 3.0], [-6.0, -8.0], [0.3, 0.4]])
    torch.testing.assert_close(scores, torch.tensor([24 / 25, 0.0, -1.0, 1.0]))


def test_strength():
    torch.testing.assert_close(score(Cosine(strength=25.0), [3.0, 4.0], [[4.0, 3.0]]), torch.tensor([24.0]))


def test_a_zero_vector_scores_zero():
    assert score(Cosine(), [3.0, 4.0], [[0.0, 0.0]]).tolist() == [0.0]
    assert score(Cosine(), [0.0, 0.0], [[4.0, 3.0]]).tolist() == [0.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_zero_vector_learns_nothing_in_half_precision(dtype):
    """The least length that it is divided by would be 0 there."""
    vectors = torch.zeros(1, 2, dtype=dtype, requires_grad=True)
    scorer = Cosine()
    scores = scorer.score(scorer.project_queries(torch.ones(1, 2)).to(dtype), scorer.project_keys(vectors))
    scores.sum().backward()
    assert (scores.dtype, scores.tolist()) == (dtype, [[0.0]])
    assert vectors.grad.isfinite().all()


def test_weights():
    """Equation 5: with beta = ln 3, cosines 1, 0 and -1 weigh 3 : 1 : 1/3, that is 9/13, 3/13 and 1/13."""
    attention = build(scorer=("cosine", {"strength": math.log(3)}), query_size=2, memory_size=2)
    memory = attention.make_memory(torch.tensor([[[2.0, 0.0], [0.0, 7.0], [-5.0, 0.0]]]))
    read = attention(torch.tensor([[[11.0, 0.0]]]), memory, need_weights=True)
    torch.testing.assert_close(read.weights, torch.tensor([[[9 / 13, 3 / 13, 1 / 13]]]))


@pytest.mark.parametrize("learned", [True, False])
def test_learned(learned):
    """The strength is one number that stays positive however far it is moved."""
    scorer = Cosine(strength=3.0, learned=learned)
    (parameter,) = scorer.parameters()
    assert parameter.requires_grad is learned
    with torch.no_grad():
        parameter.fill_(-7.0)
    assert score(scorer, [1.0], [[1.0]]).item() > 0
