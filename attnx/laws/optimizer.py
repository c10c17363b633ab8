"""The laws of every optimizer."""

from __future__ import annotations

import torch
from torch import nn

from attnx.laws.laws import PartLaws
from attnx.laws.violation import describe_type, require, require_finite


class OptimizerLaws(PartLaws):
    """The laws of every optimizer."""

    kind = "optimizer"
    quick = ("declarations", "steps_lower_a_loss")

    def declarations(self) -> None:
        """An optimizer is a torch.optim.Optimizer over its parameters."""
        weight = nn.Parameter(torch.randn(3))
        built = self.candidate.build(parameters=[weight])
        is_optimizer = isinstance(built, torch.optim.Optimizer)
        require(is_optimizer, "", f"it is {describe_type(built)} instead of a torch.optim.Optimizer")
        parameters = [parameter for group in built.param_groups for parameter in group["params"]]
        require(len(parameters) == 1 and parameters[0] is weight, "", "its param_groups do not have its parameters")

    def steps_lower_a_loss(self) -> None:
        """Ten steps lower a convex loss, and parameters stay finite."""
        weight = nn.Parameter(torch.linspace(-2, 3, 5))
        built = self.candidate.build(parameters=[weight])
        first = weight.detach().pow(2).sum()
        for _ in range(10):
            built.zero_grad()
            weight.pow(2).sum().backward()  # type: ignore[no-untyped-call]
            built.step()
        require_finite(weight.detach(), "", "parameters after ten steps")
        last = weight.detach().pow(2).sum()
        require(last < first, "", f"ten steps took the loss |w|^2 from {first:.3g} to {last:.3g}")
