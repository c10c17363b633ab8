"""How far a run or a job is, and how well it does."""

from __future__ import annotations

from dataclasses import dataclass, field

from attnx.runs.metrics_csv import Curve


@dataclass
class JobProgress:
    """How far a run is, as far as its files say.

    Attributes:
        monitor: the validation measure that selects the best weights, once it is known.
        maximize: whether a higher one is better.
        curve: its values, in the order of validations.
        step: the optimizer steps taken.
        steps: the steps to take.
        error: why the job failed.
    """

    monitor: str | None = None
    maximize: bool = False
    curve: list[float] = field(default_factory=list)
    step: int = 0
    steps: int = 0
    error: str | None = None

    @property
    def best(self) -> float | None:
        """The best value so far; NaN is never the best."""
        values = [value for value in self.curve if value == value]
        return (max if self.maximize else min)(values) if values else None


def last_step(curves: dict[str, Curve]) -> int:
    """The last step of any curve; 0 without one."""
    return max((step for curve in curves.values() for step in curve), default=0)
