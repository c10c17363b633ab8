"""The scorers around the bilinear form: ``biased_general``, ``activated_general`` and ``low_rank``, worked by hand."""

import math
from typing import Any

import pytest
import torch

from attnx.attention.scorers.activated_general import ActivatedGeneral
from attnx.attention.scorers.biased_general import BiasedGeneral
from attnx.attention.scorers.low_rank import LowRank
from attnx.attention.scorers.multiplicative import Multiplicative


def score(scorer: Any, query: list[float], memory: list[list[float]]) -> list[float]:
    keys = scorer.project_keys(torch.tensor(memory))
    return scorer.score(scorer.project_queries(torch.tensor([query])), keys)[0].tolist()


def test_biased_general():
    """W q + b = (2 + 6 + 1, 3 - 2) = (9, 1); (5, 7) . (9, 1) = 52, (-1, 11) . (9, 1) = 2."""
    scorer = BiasedGeneral(query_size=2, memory_size=2)
    with torch.no_grad():
        scorer.query.weight.copy_(torch.tensor([[1.0, 2.0], [0.0, 1.0]]))
        scorer.query.bias.copy_(torch.tensor([1.0, -2.0]))
    assert score(scorer, [2.0, 3.0], [[5.0, 7.0], [-1.0, 11.0]]) == [52.0, 2.0]
    assert score(scorer, [0.0, 0.0], [[5.0, 7.0], [-1.0, 11.0]]) == [5 - 14, -1 - 22]  # the bias's share alone


@pytest.mark.parametrize(("activation", "expected"), [("tanh", [3 / 5, 0.0]), ("sigmoid", [2 / 3, 1 / 2])])
def test_activated_general(activation, expected):
    """W q = (3 ln 2, 0), b = -2 ln 2; the forms are 3 ln 2 - 2 ln 2 = ln 2 and 2 ln 2 - 2 ln 2 = 0."""
    scorer = ActivatedGeneral(query_size=1, memory_size=2, activation=activation)
    with torch.no_grad():
        scorer.query.weight.copy_(torch.tensor([[3 * math.log(2)], [0.0]]))
        scorer.bias.fill_(-2 * math.log(2))
    assert score(scorer, [1.0], [[1.0, 13.0], [2 / 3, 17.0]]) == pytest.approx(expected)


def test_low_rank():
    """Rank 1: A q = 2 * 2 - 3 = 1 and B m = 5 + 7 + 11, 5 - 11: their products."""
    scorer = LowRank(query_size=2, memory_size=3, rank=1)
    with torch.no_grad():
        scorer.query.weight.copy_(torch.tensor([[2.0, -1.0]]))
        scorer.memory.weight.fill_(1.0)
    assert score(scorer, [2.0, 3.0], [[5.0, 7.0, 11.0], [5.0, 0.0, -11.0]]) == [23.0, -6.0]


def test_low_rank_is_multiplicative_by_a_matrix_of_that_rank():
    """q . W m with W = A' B."""
    scorer, plain = LowRank(query_size=5, memory_size=7, rank=2), Multiplicative(query_size=5, memory_size=7)
    with torch.no_grad():
        plain.memory.weight.copy_(scorer.query.weight.T @ scorer.memory.weight)
    query, memory = torch.randn(5).tolist(), torch.randn(3, 7).tolist()
    assert score(scorer, query, memory) == pytest.approx(score(plain, query, memory), abs=1e-5)
