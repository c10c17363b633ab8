"""The laws of every normalizer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnx.laws.candidate import Candidate
from attnx.laws.declarations import require_declarations, require_methods
from attnx.laws.gradients import agree, require_finite_gradients, require_used
from attnx.laws.violation import Violation, require, require_close, require_finite, require_tensor

# Rows in which all, some, one and none of 7 positions are allowed.
ALLOWED = torch.tensor(
    [[1, 1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 1, 0, 1], [0, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]], dtype=torch.bool
)


def scores(spread: float = 1.0) -> Tensor:
    """Random scores (4, 7)."""
    return spread * torch.randn(4, 7)


def weigh(part: Any, given: Tensor, allowed: Tensor) -> Tensor:
    """The weights, of the right type and shape."""
    return require_tensor(part(given, allowed), "forward", given.shape)


def declarations(normalizer: Candidate) -> None:
    """A normalizer is an nn.Module with a forward, and declares ``sums_to_one``."""
    part = normalizer.build()
    require_declarations(normalizer, part)
    require_methods(part, ("forward",))
    fact = normalizer.declares("differentiable", True)
    require(getattr(part, "differentiable", True) is fact, "differentiable", f"its source declares {fact!r}")


def shapes(normalizer: Candidate) -> None:
    """Weights have the shape of the scores."""
    weigh(normalizer.build(), torch.randn(2, 3, 7), torch.ones(2, 3, 7, dtype=torch.bool))


def any_leading_axes(normalizer: Candidate) -> None:
    """Any leading axes pass through, and one row of what is allowed serves all queries."""
    part = normalizer.build()
    for leading in ((), (2,), (2, 13)):
        weigh(part, torch.randn(*leading, 3, 7), torch.ones(*leading, 3, 7, dtype=torch.bool))
    given, narrow = torch.randn(4, 3, 7), ALLOWED[:, None]
    wide = weigh(part, given, narrow.expand(4, 3, 7))
    require_close(weigh(part, given, narrow), wide, "forward", "what is allowed does not broadcast")


def forbidden_is_zero(normalizer: Candidate) -> None:
    """What is not allowed weighs 0."""
    weights = weigh(normalizer.build(), scores(), ALLOWED)
    most = weights[~ALLOWED].abs().max().item()
    require(most == 0, "forward", f"it gave a weight of {most:.3g} to what is not allowed")


def sums_to_one_is_true(normalizer: Candidate) -> None:
    """Weights are never negative; where ``sums_to_one`` is declared, rows sum to 1, or to 0 if nothing is allowed."""
    part = normalizer.build()
    for spread in (1.0, 1e4):
        weights = weigh(part, scores(spread), ALLOWED)
        require((weights >= 0).all(), "forward", f"it gave a weight of {weights.min().item():.3g}")
        if normalizer.declares("sums_to_one"):
            expected = ALLOWED.any(-1).to(weights.dtype)
            require_close(weights.sum(-1), expected, "forward", "a row does not sum to 1, or to 0 where it must")


def forbidden_scores_change_nothing(normalizer: Candidate) -> None:
    """Scores of what is not allowed change no weight."""
    part, given = normalizer.build(), scores()
    other = torch.where(ALLOWED, given, 1e3 * torch.randn(4, 7))
    same = torch.equal(weigh(part, given, ALLOWED), weigh(part, other, ALLOWED))
    require(same, "forward", "other scores at forbidden positions changed the weights")


def poison_where_forbidden(normalizer: Candidate) -> None:
    """Whatever stands where nothing is allowed, weights and gradients are finite, and its own gradient is 0."""
    part = normalizer.build()
    for poison in (torch.inf, -torch.inf, torch.nan, 1e4):
        given = scores().masked_fill(~ALLOWED, poison).requires_grad_()
        weights = weigh(part, given, ALLOWED)
        require_finite(weights, "forward", f"weights beside a forbidden score of {poison}")
        require((weights[3] == 0).all(), "forward", "it gave weight where nothing is allowed")
        (weights * torch.randn(4, 7)).sum().backward()  # type: ignore[no-untyped-call]
        require_finite_gradients(part, {f"scores beside a forbidden {poison}": given}, "forward")
        if given.grad is not None:
            require((given.grad[~ALLOWED] == 0).all(), "forward", "a forbidden score has a gradient")


def no_nan_on_the_way(normalizer: Candidate) -> None:
    """No intermediate gradient is NaN, where a search for the first NaN of a run would find it."""
    given = scores().requires_grad_()
    with torch.autograd.set_detect_anomaly(True):
        weigh(normalizer.build(), given, ALLOWED).sum().backward()  # type: ignore[no-untyped-call]


def extreme_scores(normalizer: Candidate) -> None:
    """Large scores of either sign, alone or all of them, give finite weights and gradients in every precision."""
    part = normalizer.build()
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        for extreme in (1e4, -1e4):
            for plain in (torch.full((4, 7), extreme), scores().index_fill(1, torch.tensor([3]), extreme)):
                given = plain.to(dtype).requires_grad_()
                weights = weigh(part, given, ALLOWED)
                (weights * torch.randn(4, 7, dtype=dtype)).sum().backward()  # type: ignore[no-untyped-call]
                require_finite(weights, "forward", f"weights of scores of {extreme:g} in {dtype}")
                require_finite(given.grad, "forward", f"gradients of scores of {extreme:g} in {dtype}")


def permuting_the_scores_permutes_the_weights(normalizer: Candidate) -> None:
    """Permuting the positions permutes the weights."""
    part, given, order = normalizer.build(), scores(), torch.tensor([4, 0, 6, 2, 5, 1, 3])
    permuted = weigh(part, given[:, order], ALLOWED[:, order])
    straight = weigh(part, given, ALLOWED)[:, order]
    require_close(permuted, straight, "forward", "weights depend on the order of the positions")


def rows_are_independent(normalizer: Candidate) -> None:
    """A row of a batch weighs what it weighs alone."""
    part, given = normalizer.build(), scores()
    together = weigh(part, given, ALLOWED)
    for row in range(4):
        alone = weigh(part, given[row : row + 1], ALLOWED[row : row + 1])[0]
        require_close(together[row], alone, "forward", f"row {row} weighs otherwise beside other rows")


def padding_changes_nothing(normalizer: Candidate) -> None:
    """Forbidden positions behind the others change no weight, and weigh 0."""
    part, given = normalizer.build(), scores()
    longer = torch.cat([ALLOWED, torch.zeros(4, 6, dtype=torch.bool)], -1)
    padded = weigh(part, torch.cat([given, torch.randn(4, 6)], -1), longer)
    require_close(padded[:, :7], weigh(part, given, ALLOWED), "forward", "padding changed the weights")
    require((padded[:, 7:] == 0).all(), "forward", "padding weighs something")


def differentiable_is_true(normalizer: Candidate) -> None:
    """Gradients agree with finite differences, unless ``differentiable = False`` is declared; then they do not."""
    part, declared = normalizer.build(), normalizer.declares("differentiable", True)
    apart = agree(lambda given: weigh(part, given, ALLOWED), [scores()], part, fast=False)
    if apart and declared:
        raise Violation("forward", f"the gradient is not the derivative: {apart}")
    require(apart or declared, "differentiable", "it declares False, and its gradient is the derivative")


def every_parameter_is_used(normalizer: Candidate) -> None:
    """Every parameter has a gradient."""
    part = normalizer.build()
    (weigh(part, scores().requires_grad_(), ALLOWED) * torch.randn(4, 7)).sum().backward()  # type: ignore[no-untyped-call]
    require_used(part)


def temperature_divides_the_scores(normalizer: Candidate) -> None:
    """A knob ``temperature``, where there is one, divides the scores."""
    if "temperature" not in [knob.name for knob in normalizer.info.knobs]:
        return
    given = scores()
    plain = Candidate("normalizer", normalizer.name, {**normalizer.knobs, "temperature": 1.0}).build()
    for temperature in (0.3, 5.0):
        knobs = {**normalizer.knobs, "temperature": temperature}
        warm = Candidate("normalizer", normalizer.name, knobs).build()
        found, expected = weigh(warm, given, ALLOWED), weigh(plain, given / temperature, ALLOWED)
        require_close(found, expected, "forward", f"temperature={temperature} does not divide the scores")


def a_larger_score_gets_no_less(normalizer: Candidate) -> None:
    """Weights keep the order of the scores."""
    given = scores()
    weights = weigh(normalizer.build(), given, torch.ones_like(ALLOWED))
    ordered = weights.gather(-1, given.argsort(-1))
    require((ordered.diff(dim=-1) >= 0).all(), "forward", "a larger score got a smaller weight")


def an_empty_memory_has_no_weights(normalizer: Candidate) -> None:
    """No scores give no weights, as at the first step of a memory that grows."""
    given = torch.randn(2, 3, 0).requires_grad_()
    weigh(normalizer.build(), given, torch.ones(2, 1, 0, dtype=torch.bool)).sum().backward()  # type: ignore[no-untyped-call]
    require(given.grad is not None and given.grad.shape == (2, 3, 0), "forward", "no scores have no gradient")


def inputs_stay_as_they_are(normalizer: Candidate) -> None:
    """Scores and what is allowed are not written into."""
    given, allowed = scores(), ALLOWED.clone()
    before = given.clone()
    normalizer.build()(given, allowed)
    require(torch.equal(given, before), "forward", "it changed the scores in place")
    require(torch.equal(allowed, ALLOWED), "forward", "it changed what is allowed in place")


def float32_loses_nothing(normalizer: Candidate) -> None:
    """Long rows of float32 give what float64 gives, within the digits that a float32 holds."""
    part = normalizer.build()
    for spread in (0.1, 1.0, 13.0):
        given = spread * torch.randn(5, 997, dtype=torch.float32)
        allowed = torch.rand(5, 997) < 0.7
        found, expected = weigh(part.float(), given, allowed), weigh(part.double(), given.double(), allowed)
        require(found.dtype == torch.float32, "forward", f"weights of float32 are {found.dtype}")
        require_close(found.double(), expected, "forward", "float32 is less exact", rtol=1e-5, atol=1e-6)


def bfloat16(normalizer: Candidate) -> None:
    """Weights of bfloat16 are bfloat16, and finite; so are gradients, and sums as far as it has digits."""
    given = scores(1e4).to(torch.bfloat16).requires_grad_()
    weights = weigh(normalizer.build().to(torch.bfloat16), given, ALLOWED)
    weights.sum().backward()  # type: ignore[no-untyped-call]
    require(weights.dtype == torch.bfloat16, "forward", f"weights of bfloat16 are {weights.dtype}")
    require_finite(weights, "forward", "weights of bfloat16")
    require_finite(given.grad, "forward", "gradients of bfloat16")
    if normalizer.declares("sums_to_one"):
        # 7 weights, each rounded by at most 2^-9 of itself.
        sums, expected = weights.double().sum(-1), ALLOWED.any(-1).double()
        require_close(sums, expected, "forward", "rows of bfloat16 do not sum to 1", rtol=0, atol=2**-9)


QUICK = (
    declarations,
    shapes,
    forbidden_is_zero,
    sums_to_one_is_true,
    rows_are_independent,
    poison_where_forbidden,
)
LAWS = (
    *QUICK,
    any_leading_axes,
    forbidden_scores_change_nothing,
    no_nan_on_the_way,
    extreme_scores,
    permuting_the_scores_permutes_the_weights,
    padding_changes_nothing,
    differentiable_is_true,
    every_parameter_is_used,
    temperature_divides_the_scores,
    a_larger_score_gets_no_less,
    an_empty_memory_has_no_weights,
    inputs_stay_as_they_are,
    float32_loses_nothing,
    bfloat16,
)
