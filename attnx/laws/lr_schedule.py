"""The laws of every learning-rate schedule."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from attnx.laws.laws import PartLaws
from attnx.laws.violation import describe_type, require

STEPS = 23


class ScheduleLaws(PartLaws):
    """The laws of every learning-rate schedule."""

    kind = "lr_schedule"
    quick = ("declarations", "rates_are_valid")

    def _build(self) -> tuple[Any, Any]:
        """An optimizer of rate 1, and its schedule for 23 steps."""
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        progress = {"progress": lambda step: min(1.0, step / STEPS)}
        return optimizer, self.candidate.build(optimizer=optimizer, **progress)

    def declarations(self) -> None:
        """A schedule is an LRScheduler of torch over its optimizer."""
        _, schedule = self.part
        require(isinstance(schedule, LRScheduler), "", f"it is {describe_type(schedule)} instead of an LRScheduler")

    def rates_are_valid(self) -> None:
        """Rates are finite and at least 0, up to the last step and after it, and not all of them are 0."""
        optimizer, schedule = self.part
        rates = _rates(optimizer, schedule, STEPS + 3)
        wrong = [rate for rate in rates if not math.isfinite(rate) or rate < 0]
        require(not wrong, "", f"a rate is {wrong[:1]}")
        require(any(rates), "", "every rate is 0")

    def restored_schedules_continue(self) -> None:
        """A schedule with the restored state of another continues with the same rates."""
        optimizer, schedule = self.part
        _rates(optimizer, schedule, 7)
        second, resumed = self._build()
        second.load_state_dict(optimizer.state_dict())
        resumed.load_state_dict(schedule.state_dict())
        same = _rates(second, resumed, 5) == _rates(optimizer, schedule, 5)
        require(same, "", "restored from its state, it gives different rates")


def _rates(optimizer: Any, schedule: Any, steps: int) -> list[float]:
    """The rate before each step."""
    rates = []
    for _ in range(steps):
        rates.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        schedule.step()
    return rates
