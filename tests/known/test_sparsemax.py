"""Martins and Astudillo 2016: sparsemax by hand, and against its definition as the nearest point of the simplex."""

import itertools

import pytest
import torch
from torch import Tensor

from attnx.attention.normalizers.sparsemax import Sparsemax
from attnx.ops import sparsemax

# The two highest ask for a threshold of (1 + 1/2 - 1) / 2 = 1/4; the third is below it.
SCORES = torch.tensor([0.5, -1.0, 1.0])
ALL = torch.ones(3, dtype=torch.bool)


def nearest(scores: Tensor) -> Tensor:
    """The definition, by trying every set of positions that may weigh something (equation 2).

    With all others at 0, the nearest point of the plane where the set's weights sum to 1 takes the same from each of
    its scores. The answer is the nearest of those points that have no negative weight.
    """
    candidates = []
    for choice in itertools.product([False, True], repeat=len(scores)):
        picked = torch.tensor(choice)
        if picked.any():
            point = torch.where(picked, scores - (scores[picked].sum() - 1) / picked.sum(), 0.0)
            if (point >= 0).all():
                candidates.append(point)
    return min(candidates, key=lambda point: float((point - scores).square().sum()))


def test_weights_exceed_the_threshold():
    torch.testing.assert_close(Sparsemax()(SCORES, ALL), torch.tensor([1 / 4, 0.0, 3 / 4]))


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_a_score_that_is_no_number_is_not_hidden(number):
    weights = sparsemax(torch.tensor([0.5, number, 1.0]), torch.tensor([True, True, False]))
    assert weights[:2].isnan().any()


def test_zeros_are_exact():
    """A score more than T below the best gets no weight."""
    assert Sparsemax()(torch.tensor([7.0, 6.0, 5.9]), ALL).tolist() == [1.0, 0.0, 0.0]
    assert Sparsemax()(torch.tensor([7.0, 6.5, 5.9]), ALL).tolist() == [0.75, 0.25, 0.0]
    assert Sparsemax()(torch.tensor([1e4, 1e4, -1e4]), ALL).tolist() == [0.5, 0.5, 0.0]


def test_a_point_of_the_simplex_is_its_own_projection():
    weights = torch.tensor([0.125, 0.625, 0.25])
    torch.testing.assert_close(Sparsemax()(weights, ALL), weights)
    torch.testing.assert_close(Sparsemax()(weights - 89.0, ALL), weights, rtol=0, atol=1e-5)


def test_equal_scores_share_the_weight():
    torch.testing.assert_close(Sparsemax()(torch.full((3,), -5.0), ALL), torch.full((3,), 1 / 3))


@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0])
def test_the_projection_is_the_nearest_point(spread):
    scores = spread * torch.randn(11, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    result = sparsemax(scores, torch.tensor(True))
    for row in range(11):
        torch.testing.assert_close(result[row], nearest(scores[row]))
        assert torch.equal(result[row] == 0, nearest(scores[row]) == 0)


def test_second_gradients_match_finite_differences():
    scores = torch.randn(3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()
    allowed_mask = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 1, 0, 1], [0, 0, 0, 0, 0, 0, 0]], dtype=torch.bool)
    assert torch.autograd.gradgradcheck(lambda scores: sparsemax(scores, allowed_mask) ** 2, (scores,))
