"""The learning-rate schedules, by name; one that falls towards the end of a run is supplied with ``progress``."""

from __future__ import annotations

from collections.abc import Callable

# The share of the training that is done after some optimizer steps, 0 to 1. How many steps there will be may change.
Progress = Callable[[int], float]


def warm_up(step: int, warmup_steps: int) -> float:
    """The factor of a linear warm-up after some optimizer steps: it is 1 from the step ``warmup_steps`` on.

    >>> [warm_up(step, 4) for step in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """
    return min(1.0, (step + 1) / max(warmup_steps, 1))
