"""Laws of every normaliser."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnx import registry

pytestmark = pytest.mark.usefixtures("float64")
Choice = tuple[str, dict[str, Any]]

# Rows in which all, some, one and none of 7 positions are allowed.
ALLOWED = torch.tensor(
    [[1, 1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 1, 0, 1], [0, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]], dtype=torch.bool
)


def make(choice: Choice, **knobs: Any) -> Any:
    name, others = choice
    return registry.build("normaliser", (name, {**others, **knobs}))


def declared(choice: Choice, fact: str, default: bool | None = None) -> Any:
    return registry.part("normaliser", choice[0]).declares.get(fact, default)


def scores(spread: float = 1.0) -> Tensor:
    return spread * torch.randn(4, 7)


@pytest.mark.parametrize("leading", [(), (2,), (2, 13)], ids=["alone", "batch", "batch and heads"])
def test_shape(each_normaliser: Choice, leading: tuple[int, ...]) -> None:
    weights = make(each_normaliser)(torch.randn(*leading, 3, 7), torch.ones(*leading, 3, 7, dtype=torch.bool))
    assert weights.shape == (*leading, 3, 7)


def test_allowed_broadcasts(each_normaliser: Choice) -> None:
    """One row of what is allowed serves all queries."""
    normaliser, given = make(each_normaliser), torch.randn(4, 3, 7)
    narrow, wide = ALLOWED[:, None], ALLOWED[:, None].expand(4, 3, 7)
    torch.testing.assert_close(normaliser(given, narrow), normaliser(given, wide))


@pytest.mark.parametrize("spread", [1.0, 1e4])
def test_sums_to_one_is_true(each_normaliser: Choice, spread: float) -> None:
    """Where a normaliser declares it, rows sum to 1, or to 0 where nothing is allowed; weights are never negative."""
    weights = make(each_normaliser)(scores(spread), ALLOWED)
    assert (weights >= 0).all()
    if declared(each_normaliser, "sums_to_one"):
        torch.testing.assert_close(weights.sum(-1), torch.tensor([1.0, 1.0, 1.0, 0.0]))


def test_forbidden_is_zero(each_normaliser: Choice) -> None:
    weights = make(each_normaliser)(scores(), ALLOWED)
    assert (weights[~ALLOWED] == 0).all()


def test_forbidden_scores_change_nothing(each_normaliser: Choice) -> None:
    normaliser, given = make(each_normaliser), scores()
    other = torch.where(ALLOWED, given, 1e3 * torch.randn(4, 7))
    assert torch.equal(normaliser(given, ALLOWED), normaliser(other, ALLOWED))


@pytest.mark.parametrize("poison", [torch.inf, -torch.inf, torch.nan, 1e4])
def test_poison_where_forbidden(each_normaliser: Choice, poison: float) -> None:
    """Whatever stands at forbidden positions, weights and gradients are finite, and its own gradient is 0."""
    given = scores().masked_fill(~ALLOWED, poison).requires_grad_()
    weights = make(each_normaliser)(given, ALLOWED)
    (weights * torch.randn(4, 7)).sum().backward()
    assert weights.isfinite().all()
    assert (weights[3] == 0).all()
    assert given.grad.isfinite().all()
    assert (given.grad[~ALLOWED] == 0).all()


def test_no_nan_on_the_way(each_normaliser: Choice) -> None:
    """Not in between either, where whoever searches for the first NaN of a run would find it."""
    given = scores().requires_grad_()
    with torch.autograd.set_detect_anomaly(True):
        make(each_normaliser)(given, ALLOWED).sum().backward()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("extreme", [1e4, -1e4])
def test_extreme_scores(each_normaliser: Choice, extreme: float, dtype: torch.dtype) -> None:
    """Large scores of either sign, alone or all of them, give finite weights and gradients."""
    for given in (torch.full((4, 7), extreme), scores().index_fill(1, torch.tensor([3]), extreme)):
        given = given.to(dtype).requires_grad_()
        weights = make(each_normaliser)(given, ALLOWED)
        (weights * torch.randn(4, 7, dtype=dtype)).sum().backward()
        assert weights.isfinite().all()
        assert given.grad.isfinite().all()


def test_permutation(each_normaliser: Choice) -> None:
    """Permuting the positions permutes the weights."""
    normaliser, given, order = make(each_normaliser), scores(), torch.tensor([4, 0, 6, 2, 5, 1, 3])
    permuted = normaliser(given[:, order], ALLOWED[:, order])
    torch.testing.assert_close(permuted, normaliser(given, ALLOWED)[:, order])


def test_rows_are_independent(each_normaliser: Choice) -> None:
    normaliser, given = make(each_normaliser), scores()
    together = normaliser(given, ALLOWED)
    for row in range(4):
        torch.testing.assert_close(together[row], normaliser(given[row], ALLOWED[row]))


def test_padding_changes_nothing(each_normaliser: Choice) -> None:
    normaliser, given = make(each_normaliser), scores()
    padded = normaliser(torch.cat([given, torch.randn(4, 6)], -1), torch.cat([ALLOWED, torch.zeros(4, 6).bool()], -1))
    torch.testing.assert_close(padded[:, :7], normaliser(given, ALLOWED))
    assert (padded[:, 7:] == 0).all()


def test_differentiable_is_true(each_normaliser: Choice) -> None:
    """Gradients of scores and parameters agree with finite differences, unless they are declared to be something else.

    A normaliser that declares ``differentiable = False`` lends itself another's gradient; that it does is true as well.
    """
    normaliser, given = make(each_normaliser), scores().requires_grad_()
    differentiable = declared(each_normaliser, "differentiable", True)
    agree = torch.autograd.gradcheck(
        lambda given, *_: normaliser(given, ALLOWED), (given, *normaliser.parameters()), raise_exception=differentiable
    )
    assert agree is differentiable


def test_every_parameter_is_used(each_normaliser: Choice) -> None:
    normaliser = make(each_normaliser)
    (normaliser(scores().requires_grad_(), ALLOWED) * torch.randn(4, 7)).sum().backward()
    unused = [name for name, value in normaliser.named_parameters() if value.grad is None]
    assert not unused


@pytest.mark.parametrize("temperature", [0.3, 5.0])
def test_temperature_divides_the_scores(each_normaliser: Choice, temperature: float) -> None:
    """Every normaliser of the core has the knob; one of a plug-in that has it means the same by it."""
    info = registry.part("normaliser", each_normaliser[0])
    if "temperature" not in [knob.name for knob in info.knobs]:
        assert info.origin != "core"
        pytest.skip("it has no temperature")
    given = scores()
    warm, plain = make(each_normaliser, temperature=temperature), make(each_normaliser, temperature=1.0)
    torch.testing.assert_close(warm(given, ALLOWED), plain(given / temperature, ALLOWED), rtol=0, atol=0)


def test_a_larger_score_gets_no_less(each_normaliser: Choice) -> None:
    """Weights keep the order of the scores."""
    given = scores()
    weights = make(each_normaliser)(given, torch.ones_like(ALLOWED))
    ordered = weights.gather(-1, given.argsort(-1))
    assert (ordered.diff(dim=-1) >= 0).all()


def test_an_empty_memory_has_no_weights(each_normaliser: Choice) -> None:
    """As at the first step of a memory that grows."""
    given = torch.randn(2, 3, 0).requires_grad_()
    weights = make(each_normaliser)(given, torch.ones(2, 1, 0, dtype=torch.bool))
    weights.sum().backward()
    assert weights.shape == given.grad.shape == (2, 3, 0)


def test_what_is_given_stays_as_it_is(each_normaliser: Choice) -> None:
    given, allowed = scores(), ALLOWED.clone()
    before = given.clone()
    make(each_normaliser)(given, allowed)
    assert torch.equal(given, before)
    assert torch.equal(allowed, ALLOWED)


@pytest.mark.parametrize("spread", [0.1, 1.0, 13.0])
def test_float32_is_as_good_as_its_digits(each_normaliser: Choice, spread: float) -> None:
    """Long rows too: nothing is lost on the way that a float32 could hold."""
    given = spread * torch.randn(5, 997, dtype=torch.float32)
    allowed = torch.rand(5, 997) < 0.7
    expected = make(each_normaliser)(given.double(), allowed)
    found = make(each_normaliser).to(torch.float32)(given, allowed)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)


def test_bfloat16(each_normaliser: Choice) -> None:
    given = scores(1e4).to(torch.bfloat16).requires_grad_()
    weights = make(each_normaliser)(given, ALLOWED)
    weights.sum().backward()
    assert weights.dtype == torch.bfloat16
    assert weights.isfinite().all()
    assert given.grad.isfinite().all()
    if declared(each_normaliser, "sums_to_one"):
        # 7 weights, each rounded by at most 2^-9 of itself.
        torch.testing.assert_close(weights.double().sum(-1), torch.tensor([1.0, 1.0, 1.0, 0.0]), rtol=0, atol=2**-9)


def test_the_class_and_its_source_declare_the_same(each_normaliser: Choice) -> None:
    """What is read from the source before torch loads is what the class says."""
    normaliser = make(each_normaliser)
    assert isinstance(declared(each_normaliser, "sums_to_one"), bool)
    assert normaliser.sums_to_one is declared(each_normaliser, "sums_to_one")
    assert getattr(normaliser, "differentiable", True) is declared(each_normaliser, "differentiable", True)
    assert isinstance(normaliser, nn.Module)
