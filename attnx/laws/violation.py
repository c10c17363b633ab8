"""How a law says that it is broken: which member of the part is at fault, and what came instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class Violation(AssertionError):
    """A part breaks a law.

    Args:
        member: the method or declaration at fault; "" for the part itself.
        found: what came instead of what the law says.
    """

    def __init__(self, member: str, found: str) -> None:
        super().__init__(f"{member}: {found}" if member else found)
        self.member, self.found = member, found


def require(holds: Any, member: str, found: str) -> None:
    """Raise a violation unless the condition holds."""
    if not holds:
        raise Violation(member, found)


def require_tensor(value: Any, member: str, shape: Sequence[int | None] | None = None) -> Tensor:
    """Return the value if it is a tensor of this shape; None stands for any size."""
    require(isinstance(value, Tensor), member, f"it returned {described(value)} instead of a tensor")
    if shape is not None:
        fits = len(value.shape) == len(shape) and all(
            size in (None, found) for size, found in zip(shape, value.shape, strict=False)
        )
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        require(fits, member, f"it returned the shape {tuple(value.shape)} instead of ({wanted})")
    assert isinstance(value, Tensor)
    return value


def require_finite(value: Tensor | None, member: str, what: str) -> None:
    """Raise a violation if the tensor holds NaN or infinity; a gradient that is None is none."""
    if value is not None and not bool(value.isfinite().all()):
        number = value[~value.isfinite()][0].item()
        raise Violation(member, f"{what} hold {number}")


def require_close(
    found: Tensor,
    expected: Tensor,
    member: str,
    difference: str,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Raise a violation if two tensors differ by more than rounding.

    Args:
        found: one.
        expected: the other.
        member: at fault if they differ.
        difference: what it means that they differ.
        rtol: relative tolerance; left out, and atol too, that of their precision.
        atol: absolute tolerance.
    """
    require(found.shape == expected.shape, member, f"{difference}: {tuple(found.shape)}, not {tuple(expected.shape)}")
    try:
        torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)
    except AssertionError:
        apart = (found.double() - expected.double()).abs().nan_to_num(torch.inf).max().item()
        raise Violation(member, f"{difference} (by up to {apart:.3g})") from None


def described(value: Any) -> str:
    """A value in a message: None as it is, anything else by its type."""
    return "None" if value is None else f"a {type(value).__name__}"
