"""The laws of every learning-rate schedule."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from attnx.laws.candidate import Candidate
from attnx.laws.violation import described, require

STEPS = 23


def build(lr_schedule: Candidate) -> tuple[Any, Any]:
    """An optimizer of rate 1, and its schedule for 23 steps."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    return optimizer, lr_schedule.build(optimizer=optimizer, progress=lambda step: min(1.0, step / STEPS))


def rates(optimizer: Any, schedule: Any, steps: int) -> list[float]:
    """The rate before each step."""
    values = []
    for _ in range(steps):
        values.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        schedule.step()
    return values


def declarations(lr_schedule: Candidate) -> None:
    """A schedule is an LRScheduler of torch over its optimizer."""
    _, schedule = build(lr_schedule)
    require(isinstance(schedule, LRScheduler), "", f"it is {described(schedule)} instead of an LRScheduler")


def rates_are_valid(lr_schedule: Candidate) -> None:
    """Rates are finite and at least 0, up to the last step and after it, and not all of them are 0."""
    values = rates(*build(lr_schedule), STEPS + 3)
    wrong = [rate for rate in values if not math.isfinite(rate) or rate < 0]
    require(not wrong, "", f"a rate is {wrong[:1]}")
    require(any(values), "", "every rate is 0")


def restored_schedules_continue(lr_schedule: Candidate) -> None:
    """A schedule with the restored state of another continues with the same rates."""
    optimizer, schedule = build(lr_schedule)
    rates(optimizer, schedule, 7)
    second, resumed = build(lr_schedule)
    second.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(schedule.state_dict())
    same = rates(second, resumed, 5) == rates(optimizer, schedule, 5)
    require(same, "", "restored from its state, it gives different rates")


QUICK = (declarations, rates_are_valid)
LAWS = (*QUICK, restored_schedules_continue)
