"""Entmax and sparsemax by hand and by definition: Peters and Correia et al. 2019, Martins and Astudillo 2016."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from attnx.attention.normalizers.entmax import Entmax
from attnx.attention.normalizers.sparsemax import Sparsemax
from attnx.errors import UserError
from attnx.ops import entmax, masked_softmax, sparsemax

ALL = torch.ones(3, dtype=torch.bool)
# At alpha 1.5 a weight is the square of score / 2 - threshold: with the threshold -0.6 these are 0.8^2, 0.6^2 and 0,
# since -1.3 / 2 is below it.
SCORES = torch.tensor([0.4, 0.0, -1.3])
ALPHAS = [1.001, 1.01, 1.2, 1.5, 1.8, 1.99, 2.0]
ALLOWED = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 1, 0, 1], [0, 0, 0, 1, 0, 0, 0], [0] * 7], dtype=torch.bool)


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def gain_from_moving(weights: Tensor, scores: Tensor, alpha: float) -> Tensor:
    """How much ``p . scores + H(p)`` could still grow: an upper bound, from the definition alone.

    The function is concave, so from p it grows by no more than its slope towards the best corner of the simplex says.
    H is the Tsallis entropy ``sum(p - p^alpha) / (alpha (alpha - 1))``, whose slope is the bracket below.
    """
    slope = scores + (1 - alpha * weights ** (alpha - 1)) / (alpha * (alpha - 1))
    return slope.amax(-1) - (weights * slope).sum(-1)


def test_weights_by_hand():
    torch.testing.assert_close(Entmax()(SCORES, ALL), torch.tensor([0.64, 0.36, 0.0]))
    torch.testing.assert_close(Entmax()(SCORES + 89.0, ALL), torch.tensor([0.64, 0.36, 0.0]), rtol=0, atol=1e-5)
    # Roots 2/3, 2/3 and 1/3, whose squares sum to 1, differ by half of 2/3.
    torch.testing.assert_close(Entmax()(torch.tensor([2 / 3, 0.0, 2 / 3]), ALL), torch.tensor([4 / 9, 1 / 9, 4 / 9]))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_weights_satisfy_the_defining_equation(alpha):
    """From weights to scores and back: with the threshold 0, the score of p is p^(alpha - 1) / (alpha - 1)."""
    weights = torch.tensor([0.5, 0.0, 0.3, 0.2, 0.0], dtype=torch.float64)
    scores = weights ** (alpha - 1) / (alpha - 1)
    scores[4] = -7.0
    result = entmax(scores, torch.tensor(True), alpha)
    torch.testing.assert_close(result, weights)
    # The second lies exactly at the threshold, where rounding may decide; below it zeros are exact.
    assert result[4] == 0


@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_weights_maximize_the_objective(alpha, spread):
    """No other weights have a larger objective, for alpha as a number and as a tensor."""
    scores = spread * randn(11, 7)
    for inputs in (alpha, torch.tensor(alpha, dtype=torch.float64)):
        weights = entmax(scores, torch.tensor(True), inputs)
        assert (weights >= 0).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(11, dtype=torch.float64))
        # Relative to the sizes that cancel in the slope. H is strongly concave (its second derivative is
        # -p^(alpha - 2) <= -1), so weights that could gain g are within sqrt(2 g) of the best.
        assert (gain_from_moving(weights, scores, alpha) < 1e-14 / (alpha - 1) ** 2).all()


def test_the_objective_rejects_other_weights():
    """Weights that are off by a thousandth could gain something."""
    scores = randn(11, 7)
    off = entmax(scores, torch.tensor(True), 1.5) * 0.999 + 0.001 / 7
    assert (gain_from_moving(off, scores, 1.5) > 1e-7).all()


def test_alpha_interpolates_softmax_and_sparsemax():
    """At the ends of the family are the two that have names."""
    scores = randn(4, 7)
    torch.testing.assert_close(entmax(scores, ALLOWED, 1 + 1e-9), masked_softmax(scores, ALLOWED), rtol=0, atol=1e-8)
    two = torch.tensor(2.0, dtype=torch.float64)
    torch.testing.assert_close(entmax(scores, ALLOWED, two), sparsemax(scores, ALLOWED))
    assert torch.equal(entmax(scores, ALLOWED, 2.0), sparsemax(scores, ALLOWED))


def test_larger_alphas_are_sparser():
    counts = [int((entmax(3 * randn(11, 7), torch.tensor(True), alpha) > 0).sum()) for alpha in (1.01, 1.3, 1.6, 2.0)]
    assert counts[0] == 77
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) == 4


@pytest.mark.parametrize("alpha", [1.2, 2.0])
def test_the_slowest_newton_case_converges(alpha):
    """Scores that the threshold must pass one after another, a long row of them, in both precisions."""
    for dtype in (torch.float32, torch.float64):
        scores = -3 * (1 - 0.99 ** torch.arange(997, dtype=dtype))
        weights = entmax(scores, torch.tensor(True), torch.tensor(alpha, dtype=dtype)).double()
        bound = 1e-5 if dtype == torch.float32 else 1e-13
        assert gain_from_moving(weights, scores.double(), alpha) < bound


@pytest.mark.parametrize("alpha", [1.05, 1.2, 1.5, 1.9])
def test_second_gradients_match_finite_differences(alpha):
    """Of scores and alpha, one alpha for each row, against finite differences; and of those gradients again."""
    scores = randn(4, 7).requires_grad_()
    alphas = (alpha + 0.01 * torch.arange(4, dtype=torch.float64)[:, None]).requires_grad_()
    assert torch.autograd.gradcheck(lambda scores, alphas: entmax(scores, ALLOWED, alphas), (scores, alphas))
    assert torch.autograd.gradgradcheck(lambda scores, alphas: entmax(scores, ALLOWED, alphas), (scores, alphas))


def test_the_gradient_of_alpha_by_hand():
    """Two positions d apart with weights p and 1 - p: p^b - (1 - p)^b = b d, b = alpha - 1, tells p from alpha.

    So dp/db = (d - p^b log p + (1 - p)^b log(1 - p)) / (b p^(b - 1) + b (1 - p)^(b - 1)); here p = 16/25, b = 1/2.
    """
    p, q, b, d = 16 / 25, 9 / 25, 1 / 2, 0.4
    by_hand = (d - 4 / 5 * math.log(p) + 3 / 5 * math.log(q)) / (b * 5 / 4 + b * 5 / 3)
    alpha = torch.tensor(1 + b, requires_grad=True)
    entmax(torch.tensor([d, 0.0]), torch.tensor(True), alpha)[0].backward()
    torch.testing.assert_close(alpha.grad, torch.tensor(by_hand))


def test_learned():
    """It starts at the given value, can be trained, and stays where entmax is defined."""
    normalizer = Entmax(alpha=1.3, learned=True)
    ((_, parameter),) = normalizer.named_parameters()
    torch.testing.assert_close(normalizer(SCORES, ALL), entmax(SCORES, ALL, 1.3))
    (normalizer(SCORES, ALL) * SCORES).sum().backward()
    assert parameter.grad > 0  # a larger alpha is sharper
    for far, alpha in ((-1e3, 1.01), (1e3, 2.0)):
        torch.nn.init.constant_(parameter, far)
        torch.testing.assert_close(normalizer(SCORES, ALL), entmax(SCORES, ALL, alpha))
        normalizer(SCORES, ALL)[0].backward()
        assert parameter.grad.isfinite()


def test_a_learned_alpha_keeps_its_digits_in_bfloat16():
    """The parameter has bfloat16's 8 digits; what is made of it, and the weights on the way, have float32's."""
    normalizer = Entmax(alpha=1.5, learned=True).to(torch.bfloat16)
    assert normalizer.alpha.dtype == torch.float32
    assert normalizer(SCORES.to(torch.bfloat16), ALL).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("alpha", "learned"),
    [*((alpha, False) for alpha in (-1.0, 0.5, 1.0, 2.001, 4.0)), *((alpha, True) for alpha in (1.005, 1.01, 2.0))],
)
def test_an_invalid_alpha_is_refused(alpha, learned):
    """One that cannot be learned is valid as it is."""
    if learned:
        Entmax(alpha=alpha)
    reason = r"learned starts between 1\.01 and 2" if learned else "above 1, up to 2; 1 is normalizer=softmax"
    with pytest.raises(UserError, match=rf"normalizer\.alpha={alpha}: .* {reason}"):
        Entmax(alpha=alpha, learned=learned)


def test_it_can_be_differentiated_and_vectorized_by_function_transforms():
    scores, mask = randn(5, 3), torch.ones(5, 3, dtype=torch.bool)

    def first_weight(row: Tensor) -> Tensor:
        return entmax(row, ALL, 1.5)[0]

    expected = scores.clone().requires_grad_()
    entmax(expected, mask, 1.5)[:, 0].sum().backward()
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(first_weight))(scores), expected.grad)


def nearest(scores: Tensor) -> Tensor:
    """The definition, by trying every set of positions that may weigh something (equation 2 of Martins and Astudillo).

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


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_a_score_that_is_no_number_is_not_hidden(number):
    weights = sparsemax(torch.tensor([0.5, number, 1.0]), torch.tensor([True, True, False]))
    assert weights[:2].isnan().any()


@pytest.mark.parametrize(
    ("scores", "weights"),
    [
        ([0.5, -1.0, 1.0], [1 / 4, 0.0, 3 / 4]),  # the highest two ask for a threshold of (1 + 1/2 - 1) / 2 = 1/4
        # Zeros are exact: a score more than T below the best gets no weight.
        ([7.0, 6.0, 5.9], [1.0, 0.0, 0.0]),
        ([7.0, 6.5, 5.9], [0.75, 0.25, 0.0]),
        ([1e4, 1e4, -1e4], [0.5, 0.5, 0.0]),
        ([0.125, 0.625, 0.25], [0.125, 0.625, 0.25]),  # a point of the simplex is its own projection
        ([0.125 - 89, 0.625 - 89, 0.25 - 89], [0.125, 0.625, 0.25]),
        ([-5.0] * 3, [1 / 3] * 3),
    ],
    ids=str,
)
def test_sparsemax_by_hand(scores, weights):
    result = Sparsemax()(torch.tensor(scores), ALL)
    torch.testing.assert_close(result, torch.tensor(weights), rtol=0, atol=1e-5 if scores[0] < -6 else 1e-7)
    assert [weight == 0 for weight in result.tolist()] == [weight == 0 for weight in weights]


@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0])
def test_the_projection_is_the_nearest_point(spread):
    scores = spread * torch.randn(11, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    result = sparsemax(scores, torch.tensor(True))
    for row in range(11):
        torch.testing.assert_close(result[row], nearest(scores[row]))
        assert torch.equal(result[row] == 0, nearest(scores[row]) == 0)


def test_second_gradients_of_sparsemax_match_finite_differences():
    scores = torch.randn(3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()
    allowed_mask = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 1, 0, 1], [0, 0, 0, 0, 0, 0, 0]], dtype=torch.bool)
    assert torch.autograd.gradgradcheck(lambda scores: sparsemax(scores, allowed_mask) ** 2, (scores,))
