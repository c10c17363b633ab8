"""Battenberg et al. 2020, equation 8: e = v . tanh(U f + T g + b) + log(P * a), worked by hand."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from attnx.attention import AttentionHistory
from attnx.attention.scorers.dynamic_convolution import DynamicConvolution, beta_binomial

LN2, LN3 = math.log(2), math.log(3)  # tanh(ln 2) = 3/5, tanh(ln 3) = 4/5
FLOOR = math.log(torch.finfo(torch.float32).tiny)


@pytest.fixture
def scorer():
    """Filters of three positions: the static one reads the position before, the dynamic one the position after.

    U = 2 ln 2, T = 2 ln 3, b = 0, v = 5; a query of 1 makes the dynamic filter (0, 0, 1), a query of 0 makes zeros.
    Steps of the prior are 0, 1 or 2 positions, 1/3 each: a beta-binomial distribution with alpha = beta = 1.
    """
    scorer = DynamicConvolution(1, hidden_size=1, filters=1, kernel_radius=1, max_step=2, alpha=1.0, beta=1.0)
    to_hidden, _, to_filters = scorer.make_filters
    with torch.no_grad():
        to_hidden.weight.fill_(LN2)
        to_hidden.bias.zero_()
        to_filters.weight.copy_(torch.tensor([[0.0], [0.0], [5 / 3]]))
        scorer.static_filters.weight.copy_(torch.tensor([[1.0, 0.0, 0.0]]))
        scorer.static.weight.fill_(2 * LN2)
        scorer.dynamic.weight.fill_(2 * LN3)
        scorer.dynamic.bias.zero_()
        scorer.v.fill_(5.0)
    return scorer


def score(scorer: DynamicConvolution, query: float, previous: list[float], cumulative: list[float]) -> list[float]:
    keys = scorer.project_keys(torch.full((1, len(previous), 13), 97.0))
    queries = scorer.project_queries(torch.tensor([[[query]]]))
    result: Tensor = scorer.score(queries, keys, AttentionHistory(torch.tensor([previous]), torch.tensor([cumulative])))
    return result.flatten().tolist()


def test_equation_8(scorer):
    """Position 1 was read with 1/2 and position 3 with 1/2.

    f sees it one later, at 2 and 4: tanh(2 ln 2 / 2) = 3/5. g sees it one earlier, at 0 and 2: ln 3, so 2 has tanh(ln 2
    + ln 3) = 35/37. The prior has a third of the last three positions' sum: 0, 1/2, 1/2, 1 and 1/2.
    """
    previous = [0.0, 1 / 2, 0.0, 1 / 2, 0.0]
    content = [5 * 4 / 5, 0.0, 5 * 35 / 37, 0.0, 5 * 3 / 5]
    prior = [FLOOR, math.log(1 / 6), math.log(1 / 6), math.log(1 / 3), math.log(1 / 6)]
    expected = [first + second for first, second in zip(content, prior, strict=True)]
    assert score(scorer, 1.0, previous, [1.0] * 5) == pytest.approx(expected, rel=1e-5)


def test_the_dynamic_filters_follow_the_query(scorer):
    """A query of 0 makes filters of zeros: the static filter alone sees position 0, from position 1."""
    expected = [math.log(1 / 3), 5 * 15 / 17 + math.log(1 / 3), math.log(1 / 3), FLOOR]  # tanh(ln 4) = 15/17
    assert score(scorer, 0.0, [1.0, 0.0, 0.0, 0.0], [1.0] * 4) == pytest.approx(expected, rel=1e-5)


def test_the_first_step_comes_from_the_first_position(scorer):
    """A memory that was never read is read as if all weight had been on its first position."""
    first = score(scorer, 1.0, [0.0] * 4, [0.0] * 4)
    assert first == score(scorer, 1.0, [1.0, 0.0, 0.0, 0.0], [1.0] * 4)
    assert first != pytest.approx(score(scorer, 1.0, [0.0] * 4, [1.0] * 4))


def test_the_prior_of_the_paper():
    """alpha = 0.1, beta = 0.9 and 10 trials: a mean of 10 * 0.1 / (0.1 + 0.9) = 1; of 1 trial, 9/10 and 1/10."""
    prior = beta_binomial(10, 0.1, 0.9)
    assert prior.sum().item() == pytest.approx(1)
    assert (prior * torch.arange(11)).sum().item() == pytest.approx(1)
    assert beta_binomial(1, 0.1, 0.9).tolist() == pytest.approx([9 / 10, 1 / 10])


def test_a_model_never_reads_backwards(build_model):
    """With hard weights the position that is read never moves back, nor by more than ``max_step``."""
    model = build_model(scorer=("dynamic_convolution", {"max_step": 2}), normalizer="hard")
    source = torch.arange(3, 16)[None]
    state, positions = model.init_state(source, source > 0), [0]
    for symbol in (1, 5, 8, 3, 7):
        _, state, read = model.decode_step(torch.tensor([symbol]), state, need_weights=True)
        positions.append(int(read.weights.argmax()))
    assert all(0 <= now - earlier <= 2 for earlier, now in itertools.pairwise(positions))


def test_a_long_prior_sums_to_one():
    """Its binomial coefficients are too large for a float."""
    assert beta_binomial(trials=2000, alpha=0.1, beta=0.9).sum().item() == pytest.approx(1, abs=1e-4)
