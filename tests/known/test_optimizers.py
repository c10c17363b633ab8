"""Optimizers lower a loss; learning-rate schedules give rates that can be trained with, and continue when restored."""

import math

import pytest
import torch
from torch import nn
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import LRScheduler

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


BETAS = {"beta1": 0.5, "beta2": 0.7, "lr": 0.3, "eps": 0.01}, {"betas": (0.5, 0.7), "lr": 0.3, "eps": 0.01}


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("sgd", {"momentum": 0.7, "lr": 0.3}, {"momentum": 0.7, "lr": 0.3}),
        ("adadelta", {"rho": 0.7, "lr": 0.3, "eps": 0.01}, {"rho": 0.7, "lr": 0.3, "eps": 0.01}),
        ("adam", *BETAS),
        ("adamw", *BETAS),
    ],
)
def test_options_reach_torch(name, options, expected):
    optimizer = registry.build("optimizer", (name, options), parameters=[nn.Parameter(torch.zeros(1))])
    assert optimizer.defaults.items() >= expected.items()


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


STEPS = 23
every_schedule = pytest.mark.parametrize("name", registry.names("lr_schedule"))


def build_schedule(name: str) -> tuple[Optimizer, LRScheduler]:
    """An optimizer of rate 1, and its schedule for 23 steps."""
    optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = registry.build("lr_schedule", name, optimizer=optimizer, progress=lambda step: min(1.0, step / STEPS))
    return optimizer, schedule


def take_rates(optimizer: Optimizer, schedule: LRScheduler, steps: int) -> list[float]:
    """The rate before each of the next steps."""
    rates = []
    for _ in range(steps):
        rates.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        schedule.step()
    return rates


@every_schedule
def test_rates_are_valid(name):
    """Up to the last step and after it."""
    optimizer, schedule = build_schedule(name)
    assert isinstance(schedule, LRScheduler)
    rates = take_rates(optimizer, schedule, STEPS + 3)
    assert all(math.isfinite(rate) and rate >= 0 for rate in rates)
    assert any(rates)


@every_schedule
def test_a_restored_schedule_continues(name):
    optimizer, schedule = build_schedule(name)
    take_rates(optimizer, schedule, 7)
    restored_optimizer, restored = build_schedule(name)
    restored_optimizer.load_state_dict(optimizer.state_dict())
    restored.load_state_dict(schedule.state_dict())
    assert take_rates(restored_optimizer, restored, 5) == take_rates(optimizer, schedule, 5)


FALL, ROOT = {"warmup_steps": 2, "min_lr_ratio": 0.2}, math.sqrt(0.5)


@pytest.mark.parametrize(
    ("name", "options", "rates"),
    [
        ("constant", {"warmup_steps": 2}, [0.5, 1, 1, 1, 1]),
        ("linear", FALL, [0.5, 0.8, 0.6, 0.4, 0.2]),
        ("cosine", FALL, [0.5, 0.2 + 0.4 * (1 + ROOT), 0.6, 0.2 + 0.4 * (1 - ROOT), 0.2]),
        ("wsd", {**FALL, "stable_share": 0.5}, [0.5, 1, 1, 0.2 + 0.8 * (1 - ROOT), 0.2]),
        ("inverse_sqrt", {"warmup_steps": 3}, [1 / 3, 2 / 3, 1, math.sqrt(3 / 4), math.sqrt(3 / 5)]),
        ("halving", {"step_size": 2}, [1, 1, 0.5, 0.5, 0.25]),
    ],
)
def test_rates_by_hand(name, options, rates):
    """Of four steps, and the one after them."""
    optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = registry.build("lr_schedule", (name, options), optimizer=optimizer, progress=lambda step: step / 4)
    assert take_rates(optimizer, schedule, 5) == pytest.approx(rates)
