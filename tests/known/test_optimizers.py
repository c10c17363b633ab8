"""Optimizers lower a loss, with the kernels of torch that are fastest on the device of the weights."""

import pytest
import torch
from torch import nn

from attnx import registry


@pytest.mark.parametrize("name", ["adam", "adamw"])
@pytest.mark.parametrize(("device", "is_fused"), [("cpu", True), ("meta", None)])
def test_fused_kernels_are_for_the_cpu(name, device, is_fused):
    """Elsewhere torch decides, which False would keep from updating all weights together."""
    optimizer = registry.find("optimizer", name)([torch.zeros(3, device=device)])  # vectors alone: one group
    assert optimizer.param_groups[0]["fused"] is is_fused


@pytest.mark.parametrize("name", registry.names("optimizer"))
def test_ten_steps_lower_a_convex_loss(name):
    weight = nn.Parameter(torch.linspace(-2, 3, 5))  # |w|^2 = 18.125
    optimizer = registry.build("optimizer", name, parameters=[weight])
    assert isinstance(optimizer, torch.optim.Optimizer)
    assert [parameter is weight for group in optimizer.param_groups for parameter in group["params"]] == [True]
    for _ in range(10):
        optimizer.zero_grad()
        weight.pow(2).sum().backward()
        optimizer.step()
    assert weight.detach().pow(2).sum() < 18.125


@pytest.mark.parametrize(("name", "options"), [("adamw", {}), ("sgd", {"weight_decay": 0.1})])
def test_matrices_decay_and_vectors_do_not(name, options):
    """With gradients of zero only decay moves a weight: biases and the gains of norms are vectors."""
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimizer = registry.build("optimizer", (name, options), parameters=model.parameters())
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    changed = [name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])]
    assert changed == ["0.weight"]
