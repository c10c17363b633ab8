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


def built(lr_schedule: Candidate) -> tuple[Any, Any]:
    """An optimizer of rate 1, and its schedule for 23 steps."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    return optimizer, lr_schedule.build(optimizer=optimizer, progress=lambda step: min(1.0, step / STEPS))


def rates(optimizer: Any, schedule: Any, steps: int) -> list[float]:
    """The rate before each of some steps."""
    found = []
    for _ in range(steps):
        found.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        schedule.step()
    return found


def declarations(lr_schedule: Candidate) -> None:
    """A schedule is one of torch.optim.lr_scheduler, over the optimizer it is given."""
    _, schedule = built(lr_schedule)
    require(isinstance(schedule, LRScheduler), "", f"it is {described(schedule)} instead of an LRScheduler")


def rates_are_rates(lr_schedule: Candidate) -> None:
    """Rates are finite, never negative, and somewhere above 0, up to the last step and beyond it."""
    found = rates(*built(lr_schedule), STEPS + 3)
    wrong = [rate for rate in found if not math.isfinite(rate) or rate < 0]
    require(not wrong, "", f"a rate is {wrong[:1]}")
    require(any(found), "", "every rate is 0")


def a_schedule_goes_on_where_it_stopped(lr_schedule: Candidate) -> None:
    """A schedule with the state of another goes on as that does: so a run is resumed."""
    optimizer, schedule = built(lr_schedule)
    rates(optimizer, schedule, 7)
    other, resumed = built(lr_schedule)
    other.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(schedule.state_dict())
    same = rates(other, resumed, 5) == rates(optimizer, schedule, 5)
    require(same, "", "restored from its state it gives other rates")


QUICK = (declarations, rates_are_rates)
LAWS = (*QUICK, a_schedule_goes_on_where_it_stopped)
