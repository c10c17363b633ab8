"""The laws of every optimizer."""

from __future__ import annotations

import torch
from torch import nn

from attnx.laws.candidate import Candidate
from attnx.laws.violation import described, require, require_finite


def declarations(optimizer: Candidate) -> None:
    """An optimizer is a torch.optim.Optimizer over the parameters it is given."""
    weight = nn.Parameter(torch.randn(3))
    found = optimizer.build(parameters=[weight])
    right = isinstance(found, torch.optim.Optimizer)
    require(right, "", f"it is {described(found)} instead of a torch.optim.Optimizer")
    held = [one for group in found.param_groups for one in group["params"]]
    require(len(held) == 1 and held[0] is weight, "", "it does not hold the parameters it was given")


def steps_lower_a_loss(optimizer: Candidate) -> None:
    """Ten steps lower a convex loss, and leave finite parameters."""
    weight = nn.Parameter(torch.linspace(-2, 3, 5))
    found = optimizer.build(parameters=[weight])
    first = weight.detach().pow(2).sum()
    for _ in range(10):
        found.zero_grad()
        weight.pow(2).sum().backward()  # type: ignore[no-untyped-call]
        found.step()
    require_finite(weight.detach(), "", "parameters after ten steps")
    last = weight.detach().pow(2).sum()
    require(last < first, "", f"ten steps took the loss |w|^2 from {first:.3g} to {last:.3g}")


QUICK = (declarations, steps_lower_a_loss)
LAWS = QUICK
