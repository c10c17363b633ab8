"""The laws of every normalizer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnx.laws.candidate import Candidate
from attnx.laws.declarations import require_declarations, require_methods
from attnx.laws.gradients import gradient_error, require_finite_gradients, require_used
from attnx.laws.violation import Violation, require, require_close, require_finite, require_tensor

# The masks of four rows: all, some, one and none of 7 positions allowed.
ALLOWED_MASK = torch.tensor(
    [[1, 1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 1, 0, 1], [0, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]], dtype=torch.bool
)


def scores(spread: float = 1.0) -> Tensor:
    """Random scores (4, 7)."""
    return spread * torch.randn(4, 7)


def weigh(part: Any, inputs: Tensor, allowed_mask: Tensor) -> Tensor:
    """The weights, their type and shape checked."""
    return require_tensor(part(inputs, allowed_mask), "forward", inputs.shape)


def declarations(normalizer: Candidate) -> None:
    """A normalizer is an nn.Module with a forward, and declares ``is_distribution``."""
    part = normalizer.build()
    require_declarations(normalizer, part)
    require_methods(part, ("forward",))
    fact = normalizer.property_value("differentiable", True)
    require(getattr(part, "differentiable", True) is fact, "differentiable", f"its source declares {fact!r}")


def shapes(normalizer: Candidate) -> None:
    """Weights have the shape of the scores."""
    weigh(normalizer.build(), torch.randn(2, 3, 7), torch.ones(2, 3, 7, dtype=torch.bool))


def any_leading_axes(normalizer: Candidate) -> None:
    """Any leading axes are accepted, and the mask broadcasts over queries."""
    part = normalizer.build()
    for leading in ((), (2,), (2, 13)):
        weigh(part, torch.randn(*leading, 3, 7), torch.ones(*leading, 3, 7, dtype=torch.bool))
    inputs, narrow = torch.randn(4, 3, 7), ALLOWED_MASK[:, None]
    wide = weigh(part, inputs, narrow.expand(4, 3, 7))
    require_close(weigh(part, inputs, narrow), wide, "forward", "the mask does not broadcast")


def masked_weights_are_zero(normalizer: Candidate) -> None:
    """Masked positions have a weight of 0."""
    weights = weigh(normalizer.build(), scores(), ALLOWED_MASK)
    most = weights[~ALLOWED_MASK].abs().max().item()
    require(most == 0, "forward", f"it gave a weight of {most:.3g} to a masked position")


def distributions_sum_to_one(normalizer: Candidate) -> None:
    """Weights are never negative; if ``is_distribution`` is declared, rows sum to 1, or to 0 if masked entirely."""
    part = normalizer.build()
    for spread in (1.0, 1e4):
        weights = weigh(part, scores(spread), ALLOWED_MASK)
        require((weights >= 0).all(), "forward", f"it gave a weight of {weights.min().item():.3g}")
        if normalizer.property_value("is_distribution"):
            expected = ALLOWED_MASK.any(-1).to(weights.dtype)
            require_close(weights.sum(-1), expected, "forward", "a row does not sum to 1, or to 0 where it must")


def masked_scores_have_no_effect(normalizer: Candidate) -> None:
    """Scores of masked positions have no effect on the weights."""
    part, inputs = normalizer.build(), scores()
    changed = torch.where(ALLOWED_MASK, inputs, 1e3 * torch.randn(4, 7))
    same = torch.equal(weigh(part, inputs, ALLOWED_MASK), weigh(part, changed, ALLOWED_MASK))
    require(same, "forward", "scores of masked positions changed the weights")


def masked_scores_may_be_nan(normalizer: Candidate) -> None:
    """Weights and gradients are finite for any score of a masked position, NaN included, and its gradient is 0."""
    part = normalizer.build()
    for poison in (torch.inf, -torch.inf, torch.nan, 1e4):
        inputs = scores().masked_fill(~ALLOWED_MASK, poison).requires_grad_()
        weights = weigh(part, inputs, ALLOWED_MASK)
        require_finite(weights, "forward", f"weights next to a masked score of {poison}")
        require((weights[3] == 0).all(), "forward", "it gave weight to a row that is masked entirely")
        (weights * torch.randn(4, 7)).sum().backward()  # type: ignore[no-untyped-call]
        require_finite_gradients(part, {f"scores next to a masked {poison}": inputs}, "forward")
        if inputs.grad is not None:
            require((inputs.grad[~ALLOWED_MASK] == 0).all(), "forward", "a masked score has a gradient other than 0")


def intermediate_gradients_are_finite(normalizer: Candidate) -> None:
    """No intermediate gradient is NaN, as anomaly detection would report it."""
    inputs = scores().requires_grad_()
    with torch.autograd.set_detect_anomaly(True):
        weigh(normalizer.build(), inputs, ALLOWED_MASK).sum().backward()  # type: ignore[no-untyped-call]


def large_scores_give_finite_results(normalizer: Candidate) -> None:
    """Large scores of either sign, one or all, give finite weights and gradients in every precision."""
    part = normalizer.build()
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        for extreme in (1e4, -1e4):
            for plain in (torch.full((4, 7), extreme), scores().index_fill(1, torch.tensor([3]), extreme)):
                inputs = plain.to(dtype).requires_grad_()
                weights = weigh(part, inputs, ALLOWED_MASK)
                (weights * torch.randn(4, 7, dtype=dtype)).sum().backward()  # type: ignore[no-untyped-call]
                require_finite(weights, "forward", f"weights of scores of {extreme:g} in {dtype}")
                require_finite(inputs.grad, "forward", f"gradients of scores of {extreme:g} in {dtype}")


def permuting_the_scores_permutes_the_weights(normalizer: Candidate) -> None:
    """Permuting the positions permutes the weights."""
    part, inputs, order = normalizer.build(), scores(), torch.tensor([4, 0, 6, 2, 5, 1, 3])
    permuted = weigh(part, inputs[:, order], ALLOWED_MASK[:, order])
    straight = weigh(part, inputs, ALLOWED_MASK)[:, order]
    require_close(permuted, straight, "forward", "weights depend on the order of the positions")


def rows_are_independent(normalizer: Candidate) -> None:
    """The weights of a row do not depend on other rows."""
    part, inputs = normalizer.build(), scores()
    together = weigh(part, inputs, ALLOWED_MASK)
    for row in range(4):
        alone = weigh(part, inputs[row : row + 1], ALLOWED_MASK[row : row + 1])[0]
        require_close(together[row], alone, "forward", f"row {row} has other weights in a batch")


def padding_has_no_effect(normalizer: Candidate) -> None:
    """Padding has no effect on the weights, and a weight of 0."""
    part, inputs = normalizer.build(), scores()
    longer = torch.cat([ALLOWED_MASK, torch.zeros(4, 6, dtype=torch.bool)], -1)
    padded = weigh(part, torch.cat([inputs, torch.randn(4, 6)], -1), longer)
    require_close(padded[:, :7], weigh(part, inputs, ALLOWED_MASK), "forward", "padding changed the weights")
    require((padded[:, 7:] == 0).all(), "forward", "padding has a weight above 0")


def gradients_are_derivatives_if_declared(normalizer: Candidate) -> None:
    """Gradients agree with finite differences, unless ``differentiable = False`` is declared: then they must not."""
    part, declared = normalizer.build(), normalizer.property_value("differentiable", True)
    error = gradient_error(lambda inputs: weigh(part, inputs, ALLOWED_MASK), [scores()], part, fast=False)
    if error and declared:
        raise Violation("forward", f"the gradient is not the derivative: {error}")
    require(error or declared, "differentiable", "it declares False, but its gradient is the derivative")


def every_parameter_has_a_gradient(normalizer: Candidate) -> None:
    """Every parameter has a gradient."""
    part = normalizer.build()
    (weigh(part, scores().requires_grad_(), ALLOWED_MASK) * torch.randn(4, 7)).sum().backward()  # type: ignore[no-untyped-call]
    require_used(part)


def temperature_divides_the_scores(normalizer: Candidate) -> None:
    """An option ``temperature`` divides the scores."""
    if "temperature" not in [knob.name for knob in normalizer.info.knobs]:
        return
    inputs = scores()
    plain = Candidate("normalizer", normalizer.name, {**normalizer.knobs, "temperature": 1.0}).build()
    for temperature in (0.3, 5.0):
        knobs = {**normalizer.knobs, "temperature": temperature}
        warm = Candidate("normalizer", normalizer.name, knobs).build()
        actual, expected = weigh(warm, inputs, ALLOWED_MASK), weigh(plain, inputs / temperature, ALLOWED_MASK)
        require_close(actual, expected, "forward", f"temperature={temperature} does not divide the scores")


def weights_keep_the_order_of_scores(normalizer: Candidate) -> None:
    """Weights keep the order of the scores."""
    inputs = scores()
    weights = weigh(normalizer.build(), inputs, torch.ones_like(ALLOWED_MASK))
    ordered = weights.gather(-1, inputs.argsort(-1))
    require((ordered.diff(dim=-1) >= 0).all(), "forward", "a larger score got a smaller weight")


def empty_memory_gives_empty_weights(normalizer: Candidate) -> None:
    """A memory of no positions gives no weights, as at the first step of a growing memory."""
    inputs = torch.randn(2, 3, 0).requires_grad_()
    weigh(normalizer.build(), inputs, torch.ones(2, 1, 0, dtype=torch.bool)).sum().backward()  # type: ignore[no-untyped-call]
    require(
        inputs.grad is not None and inputs.grad.shape == (2, 3, 0),
        "forward",
        "an empty tensor of scores has no gradient",
    )


def inputs_are_not_modified(normalizer: Candidate) -> None:
    """Scores and mask are not modified in place."""
    inputs, allowed_mask = scores(), ALLOWED_MASK.clone()
    original = inputs.clone()
    normalizer.build()(inputs, allowed_mask)
    require(torch.equal(inputs, original), "forward", "it changed the scores in place")
    require(torch.equal(allowed_mask, ALLOWED_MASK), "forward", "it changed the mask in place")


def float32_agrees_with_float64(normalizer: Candidate) -> None:
    """Long rows in float32 agree with float64 to the precision of float32."""
    part = normalizer.build()
    for spread in (0.1, 1.0, 13.0):
        inputs = spread * torch.randn(5, 997, dtype=torch.float32)
        allowed_mask = torch.rand(5, 997) < 0.7
        actual, expected = (
            weigh(part.float(), inputs, allowed_mask),
            weigh(part.double(), inputs.double(), allowed_mask),
        )
        require(actual.dtype == torch.float32, "forward", f"weights of float32 are {actual.dtype}")
        require_close(actual.double(), expected, "forward", "float32 differs from float64", rtol=1e-5, atol=1e-6)


def bfloat16(normalizer: Candidate) -> None:
    """Weights and gradients in bfloat16 are finite and bfloat16; sums are 1 to its precision."""
    inputs = scores(1e4).to(torch.bfloat16).requires_grad_()
    weights = weigh(normalizer.build().to(torch.bfloat16), inputs, ALLOWED_MASK)
    weights.sum().backward()  # type: ignore[no-untyped-call]
    require(weights.dtype == torch.bfloat16, "forward", f"weights of bfloat16 are {weights.dtype}")
    require_finite(weights, "forward", "weights of bfloat16")
    require_finite(inputs.grad, "forward", "gradients of bfloat16")
    if normalizer.property_value("is_distribution"):
        # 7 weights, each rounded by at most 2^-9 of itself.
        sums, expected = weights.double().sum(-1), ALLOWED_MASK.any(-1).double()
        require_close(sums, expected, "forward", "rows of bfloat16 do not sum to 1", rtol=0, atol=2**-9)


QUICK = (
    declarations,
    shapes,
    masked_weights_are_zero,
    distributions_sum_to_one,
    rows_are_independent,
    masked_scores_may_be_nan,
)
LAWS = (
    *QUICK,
    any_leading_axes,
    masked_scores_have_no_effect,
    intermediate_gradients_are_finite,
    large_scores_give_finite_results,
    permuting_the_scores_permutes_the_weights,
    padding_has_no_effect,
    gradients_are_derivatives_if_declared,
    every_parameter_has_a_gradient,
    temperature_divides_the_scores,
    weights_keep_the_order_of_scores,
    empty_memory_gives_empty_weights,
    inputs_are_not_modified,
    float32_agrees_with_float64,
    bfloat16,
)
