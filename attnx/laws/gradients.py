"""Gradients against finite differences, and parameters that nothing trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError

from attnx.laws.violation import Violation, require, require_finite


def agree(compute: Callable[..., Tensor], given: Sequence[Tensor], part: nn.Module, fast: bool = True) -> str:
    """Compare gradients of what is given and of the part's parameters with finite differences; "" if they agree.

    Args:
        compute: from what is given to numbers, all in float64.
        given: inputs.
        part: whose parameters are compared too.
        fast: along one random direction, not number by number.
    """
    leaves = [tensor.detach().requires_grad_() for tensor in given]
    weights = [weight for weight in part.parameters() if weight.requires_grad]

    def of_leaves(*tensors: Tensor) -> Tensor:
        return compute(*tensors[: len(leaves)])

    try:
        torch.autograd.gradcheck(of_leaves, (*leaves, *weights), fast_mode=fast)
    except GradcheckError as error:
        return str(error).strip().splitlines()[0]
    return ""


def require_gradients(compute: Callable[..., Tensor], given: Sequence[Tensor], part: Any, member: str) -> None:
    """Raise a violation unless gradients agree with finite differences; see :func:`agree`."""
    if apart := agree(compute, given, part):
        raise Violation(member, f"the gradient is not the derivative: {apart}")


def require_used(part: nn.Module) -> None:
    """Raise a violation unless every parameter that can be trained has a gradient."""
    unused = [name for name, weight in part.named_parameters() if weight.requires_grad and weight.grad is None]
    require(not unused, "", f"nothing trains {', '.join(unused)}")


def require_finite_gradients(part: nn.Module, given: dict[str, Tensor], member: str) -> None:
    """Raise a violation unless the gradients of what is given, by name, and of all parameters are finite."""
    for name, tensor in given.items():
        require_finite(tensor.grad, member, f"gradients of the {name}")
    for name, weight in part.named_parameters():
        require_finite(weight.grad, member, f"gradients of the parameter {name}")
