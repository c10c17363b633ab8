"""Checks of gradients: finite differences, finite values, and parameters without a gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError

from attnx.laws.violation import Violation, require, require_finite


def gradient_error(compute: Callable[..., Tensor], inputs: Sequence[Tensor], part: nn.Module, fast: bool = True) -> str:
    """Compare the gradients of inputs and parameters with finite differences; "" if they agree.

    Args:
        compute: from the inputs to outputs, all in float64.
        inputs: of the function.
        part: the module whose parameters are included.
        fast: check one random direction instead of every entry.
    """
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    weights = [weight for weight in part.parameters() if weight.requires_grad]

    def compute_outputs(*tensors: Tensor) -> Tensor:
        return compute(*tensors[: len(leaves)])

    try:
        torch.autograd.gradcheck(compute_outputs, (*leaves, *weights), fast_mode=fast)
    except GradcheckError as error:
        return str(error).strip().splitlines()[0]
    return ""


def require_gradients(compute: Callable[..., Tensor], inputs: Sequence[Tensor], part: Any, member: str) -> None:
    """Check that gradients agree with finite differences; see :func:`gradient_error`."""
    if error := gradient_error(compute, inputs, part):
        raise Violation(member, f"the gradient is not the derivative: {error}")


def require_used(part: nn.Module) -> None:
    """Check that every trainable parameter has a gradient."""
    unused = [name for name, weight in part.named_parameters() if weight.requires_grad and weight.grad is None]
    require(not unused, "", f"no gradient for {', '.join(unused)}")


def require_finite_gradients(part: nn.Module, inputs: dict[str, Tensor], member: str) -> None:
    """Check that the gradients of the inputs, by name, and of all parameters are finite."""
    for name, tensor in inputs.items():
        require_finite(tensor.grad, member, f"gradients of the {name}")
    for name, weight in part.named_parameters():
        require_finite(weight.grad, member, f"gradients of the parameter {name}")
