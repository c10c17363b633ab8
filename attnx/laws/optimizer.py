"""The laws of every optimizer."""

from __future__ import annotations

import torch
from torch import nn

from attnx.laws.candidate import Candidate
from attnx.laws.violation import described, require, require_finite


def declarations(optimizer: Candidate) -> None:
    """An optimizer is a torch.optim.Optimizer over its parameters."""
    weight = nn.Parameter(torch.randn(3))
    built = optimizer.build(parameters=[weight])
    right = isinstance(built, torch.optim.Optimizer)
    require(right, "", f"it is {described(built)} instead of a torch.optim.Optimizer")
    parameters = [parameter for group in built.param_groups for parameter in group["params"]]
    require(len(parameters) == 1 and parameters[0] is weight, "", "its param_groups do not have its parameters")


def steps_lower_a_loss(optimizer: Candidate) -> None:
    """Ten steps lower a convex loss, and parameters stay finite."""
    weight = nn.Parameter(torch.linspace(-2, 3, 5))
    built = optimizer.build(parameters=[weight])
    first = weight.detach().pow(2).sum()
    for _ in range(10):
        built.zero_grad()
        weight.pow(2).sum().backward()  # type: ignore[no-untyped-call]
        built.step()
    require_finite(weight.detach(), "", "parameters after ten steps")
    last = weight.detach().pow(2).sum()
    require(last < first, "", f"ten steps took the loss |w|^2 from {first:.3g} to {last:.3g}")


QUICK = (declarations, steps_lower_a_loss)
LAWS = QUICK
