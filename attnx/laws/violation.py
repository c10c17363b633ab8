"""The exception of a broken law, and the checks that raise it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError


class Violation(AssertionError):
    """A part breaks a law.

    ``member`` is the method or declaration that broke it, or ""; ``message`` the result that the law excludes.
    """

    def __init__(self, member: str, message: str) -> None:
        super().__init__(f"{member}: {message}" if member else message)
        self.member, self.message = member, message


def require(is_valid: Any, member: str, message: str) -> None:
    """Raise a violation if a condition is false."""
    if not is_valid:
        raise Violation(member, message)


def require_tensor(value: Any, member: str, shape: Sequence[int | None] | None = None) -> Tensor:
    """Return the value, checked to be a tensor of this shape; None is any size."""
    require(isinstance(value, Tensor), member, f"it returned {describe_type(value)} instead of a tensor")
    if shape is not None:
        fits = len(value.shape) == len(shape) and all(
            expected in (None, actual) for expected, actual in zip(shape, value.shape, strict=False)
        )
        expected = ", ".join("any" if size is None else str(size) for size in shape)
        require(fits, member, f"it returned the shape {tuple(value.shape)} instead of ({expected})")
    assert isinstance(value, Tensor)
    return value


def require_finite(value: Tensor | None, member: str, what: str) -> None:
    """Check that a tensor has no NaN or infinity; None, a missing gradient, has none."""
    if value is not None and not bool(value.isfinite().all()):
        entry = value[~value.isfinite()][0].item()
        raise Violation(member, f"{what} contain {entry}")


def require_close(
    actual: Tensor,
    expected: Tensor,
    member: str,
    difference: str,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Check that two tensors are the same up to rounding.

    ``difference`` is the message if they differ. The tolerances' defaults depend on the precision.
    """
    require(actual.shape == expected.shape, member, f"{difference}: {tuple(actual.shape)}, not {tuple(expected.shape)}")
    try:
        torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol)
    except AssertionError:
        difference_size = (actual.double() - expected.double()).abs().nan_to_num(torch.inf).max().item()
        raise Violation(member, f"{difference} (by up to {difference_size:.3g})") from None


def require_equal(actual: Tensor, expected: Tensor, member: str) -> None:
    """Check that two calls with the same inputs gave the same tensor, in every bit; NaN equals NaN."""
    is_same = (actual == expected) | (actual.isnan() & expected.isnan())
    if not bool(is_same.all()):
        size = (actual.double() - expected.double()).abs().nan_to_num(torch.inf).max().item()
        message = f"two equal calls differ (by up to {size:.3g}); draw random numbers only if self.training is True"
        raise Violation(member, message)


def gradient_error(compute: Callable[..., Tensor], inputs: Sequence[Tensor], part: nn.Module, fast: bool = True) -> str:
    """Compare the gradients of inputs and parameters with finite differences; "" if they agree.

    ``part`` has the parameters. ``fast`` checks one random direction instead of every entry. All is in float64.
    """
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    weights = [weight for weight in part.parameters() if weight.requires_grad]
    try:
        torch.autograd.gradcheck(lambda *tensors: compute(*tensors[: len(leaves)]), (*leaves, *weights), fast_mode=fast)
    except GradcheckError as error:
        return str(error).strip().splitlines()[0]
    return ""


def describe_type(value: Any) -> str:
    """A value in a message: None as it is, anything else by its type."""
    return "None" if value is None else f"a {type(value).__name__}"
