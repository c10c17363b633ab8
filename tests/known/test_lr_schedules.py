"""Learning-rate schedules: rates that can be trained with, and a restored state that continues them."""

import math

import pytest
import torch
from torch import nn
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import LRScheduler

from attnx import registry

STEPS = 23
every_schedule = pytest.mark.parametrize("name", registry.names("lr_schedule"))


def build(name: str) -> tuple[Optimizer, LRScheduler]:
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
    optimizer, schedule = build(name)
    assert isinstance(schedule, LRScheduler)
    rates = take_rates(optimizer, schedule, STEPS + 3)
    assert all(math.isfinite(rate) and rate >= 0 for rate in rates)
    assert any(rates)


@every_schedule
def test_a_restored_schedule_continues(name):
    optimizer, schedule = build(name)
    take_rates(optimizer, schedule, 7)
    restored_optimizer, restored = build(name)
    restored_optimizer.load_state_dict(optimizer.state_dict())
    restored.load_state_dict(schedule.state_dict())
    assert take_rates(restored_optimizer, restored, 5) == take_rates(optimizer, schedule, 5)


def test_wsd_stays_and_then_falls_by_a_root():
    """Of 4 steps half are stable; then 1 - sqrt(0), 1 - sqrt(1/2), and 0 after the last."""
    optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    choice = ("wsd", {"warmup_steps": 2, "stable_share": 0.5})
    schedule = registry.build("lr_schedule", choice, optimizer=optimizer, progress=lambda step: min(1.0, step / 4))
    assert take_rates(optimizer, schedule, 5) == pytest.approx([0.5, 1, 1, 1 - math.sqrt(0.5), 0])
