"""The scorer ``gmm``: Graves 2013, equations 46 to 51, and Battenberg et al. 2020, version V2, worked by hand."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx.attention import build
from attnx.attention.scorers.gmm import Gmm

LN2, LN3 = math.log(2), math.log(3)


def constant(form: Any, heights: list[float], steps: list[float], widths: list[float]) -> Gmm:
    """A scorer whose w', d' and s' are these, whatever the query."""
    scorer = Gmm(query_size=1, components=len(heights), form=form, hidden_size=None)
    with torch.no_grad():
        scorer.parameters_of_query[0].weight.zero_()
        scorer.parameters_of_query[0].bias.copy_(torch.tensor([*heights, *steps, *widths]))
    return scorer


def weights_of(scorer: Gmm, steps: int, positions: int, normalizer: str = "exponential") -> Tensor:
    attention: Any = build(scorer=scorer, normalizer=normalizer, query_size=1, memory_size=1)
    memory = attention.make_memory(torch.full((1, positions, 1), 97.0))
    return attention(torch.zeros(1, steps, 1), memory, need_weights=True).weights[0]


def test_scores_without_bounds_have_finite_gradients():
    """A center beyond 3e19 positions, whose distance has no square in single precision."""
    scorer = constant("exponential", [0.0], [45.0], [0.0])
    queries, keys = torch.zeros(1, 1, 1, requires_grad=True), scorer.project_keys(torch.zeros(1, 4, 2))
    scores, _ = scorer.score(scorer.project_queries(queries), keys, scorer.init_carry(keys))
    torch.softmax(scores / 0.5, -1)[..., 0].sum().backward()
    assert torch.softmax(scores / 0.5, -1).tolist() == [[[0.25] * 4]]
    gradients = [queries.grad, *(parameter.grad for parameter in scorer.parameters())]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)


def test_far_centers_have_weights_in_half_precision():
    scorer = Gmm(query_size=3, components=2).half()
    keys = scorer.project_keys(torch.zeros(1, 4, 2).half())
    queries = scorer.project_queries(torch.zeros(1, 1500, 3).half())
    scores, _ = scorer.score(queries, keys, scorer.init_carry(keys))
    assert torch.softmax(scores / 0.1, -1).isfinite().all()


def test_graves():
    """alpha = 2 and 3, beta = ln 2 each, steps of 1 and 2: phi(t, u) = 2 2^-(t - u)^2 + 3 2^-(2t - u)^2, u from 1.

    With ``normalizer=exponential`` they are the weights; no sum divides them.
    """
    scorer = constant("exponential", [LN2, LN3], [0.0, LN2], [math.log(LN2)] * 2)
    expected = [
        [2 + 3 / 2, 1 + 3, 1 / 8 + 3 / 2],
        [1 + 3 / 2**9, 2 + 3 / 2**4, 1 + 3 / 2],
    ]
    torch.testing.assert_close(weights_of(scorer, steps=2, positions=3), torch.tensor(expected))


def test_version_2():
    """Weights of 1/4 and 3/4, widths of ln 2 = softplus(0) and ln 3 = softplus(ln 2), steps of ln 2."""
    scorer = constant("softplus", [0.0, LN3], [0.0, 0.0], [0.0, LN2])

    def density(distance: float, width: float) -> float:
        return math.exp(-(distance**2) / (2 * width**2)) / (width * math.sqrt(2 * math.pi))

    expected = [[density(u - t * LN2, LN2) / 4 + density(u - t * LN2, LN3) * 3 / 4 for u in (1, 2, 3)] for t in (1, 2)]
    torch.testing.assert_close(weights_of(scorer, steps=2, positions=3), torch.tensor(expected))


def test_a_softmax_divides_by_the_sum():
    scorer = constant("softplus", [0.0, LN3], [0.0, 0.0], [0.0, LN2])
    mixture = weights_of(scorer, steps=2, positions=3)
    softmax = weights_of(scorer, steps=2, positions=3, normalizer="softmax")
    torch.testing.assert_close(softmax, mixture / mixture.sum(-1, keepdim=True))


def test_no_step_moves_no_center():
    assert weights_of(constant("exponential", [0.0], [0.0], [0.0]), steps=0, positions=3).shape == (0, 3)


@pytest.mark.parametrize("form", ["softplus", "exponential"])
def test_it_starts_with_its_steps_and_widths(form):
    """A query of zeros that no hidden layer moves: the first center is the step, and a height falls by its width."""
    scorer = Gmm(query_size=3, components=2, form=form, hidden_size=None, initial_step=2.0, initial_width=5.0)
    keys = scorer.project_keys(torch.zeros(1, 7, 13))
    scores, centers = scorer.score(scorer.project_queries(torch.zeros(1, 1, 3)), keys, scorer.init_carry(keys))
    torch.testing.assert_close(centers, torch.full((1, 2), 2.0))
    torch.testing.assert_close(scores[0, 0, 1] - scores[0, 0, 6], torch.tensor(5**2 / (2 * 5**2)))


def test_centers_far_from_the_start_in_16_bits():
    """16 bits hold every other whole number above 256; a center that moves by 1 a step is still at each of them."""
    scorer = constant("exponential", [0.0], [0.0], [0.0])
    keys, carry = torch.zeros(1, 700, 1, dtype=torch.bfloat16), None
    largest: list[int] = []
    with torch.autocast("cpu", torch.bfloat16):
        for _ in range(3):
            queries = scorer.project_queries(torch.zeros(1, 200, 1))
            scores, carry = scorer.score(queries, keys, scorer.init_carry(keys) if carry is None else carry)
            largest += (1 + scores[0].argmax(-1)).tolist()
    assert (queries.dtype, scores.dtype) == (torch.bfloat16, torch.bfloat16)
    assert largest == list(range(1, 601))


def test_no_row_is_without_weights_in_16_bits():
    """A narrow component that is 150 positions away scores far below the least number of 16 bits."""
    scorer = Gmm(query_size=1, components=1, initial_width=0.3)
    keys = torch.zeros(1, 8, 1, dtype=torch.float16)
    with torch.autocast("cpu", torch.float16):
        queries = scorer.project_queries(torch.zeros(1, 150, 1))
        scores, _ = scorer.score(queries, keys, scorer.init_carry(keys))
    assert scores.dtype == torch.float16
    assert scores.isfinite().all()


def test_a_large_first_width_can_be_set():
    """``softplus`` of it is the number itself, whose exponential is too large for a float."""
    scorer = Gmm(query_size=1, components=1, hidden_size=None, initial_width=800)
    assert torch.nn.functional.softplus(scorer.parameters_of_query[0].bias[2]).item() == pytest.approx(800)
