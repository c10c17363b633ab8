"""Step plan of a run: at which optimizer steps it validates and ends, and its progress. It reads no clock."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from attnx.errors import UserError
from attnx.registry.param_types import seconds
from attnx.runs.layout import RUN

# Keeps rounding errors of products of shares from moving a validation by a step.
ROUNDING_TOLERANCE = 1e-9


class Revision(NamedTuple):
    """A revision of the plan, valid from an optimizer step until the next revision.

    Attributes:
        step: steps taken before it.
        steps: steps after which training ends.
        validations: number of validations, at equal shares of the training.
    """

    step: int
    steps: int
    validations: int


@dataclass
class StepPlan:
    """The steps of a run, as a function of its revisions.

    Progress is the share of the training that is done. After a revision it continues from its current value and reaches
    1 at the new end, so a learning-rate schedule ends with the training. A resumed run with the same revisions takes
    the same steps.

    Attributes:
        revisions: in order; the first is valid from step 0.
        seconds: the time budget; None where the number of steps is fixed.

    >>> plan = StepPlan([Revision(0, 8, 4)])
    >>> plan.revisions.append(Revision(4, 6, 4))
    >>> plan.end, [plan.progress(step) for step in range(7)]
    (6, [0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0])
    >>> [step for step in range(7) if plan.has_validation_after(step)]
    [2, 4, 5, 6]
    """

    revisions: list[Revision]
    seconds: float | None = None

    @property
    def end(self) -> int:
        """Steps after which training ends, by the last revision."""
        return self.revisions[-1].steps

    @property
    def validations(self) -> int:
        """Number of validations, by the last revision."""
        return self.revisions[-1].validations

    def progress(self, step: int) -> float:
        """The share of the training that is done after some steps, from 0 to 1."""
        if step >= self.end:
            return 1.0
        done = 0.0
        for revision, until in zip(self.revisions, [*(later.step for later in self.revisions[1:]), step], strict=True):
            steps = min(until, step) - revision.step
            if steps <= 0:
                break
            done += (1 - done) * steps / (revision.steps - revision.step)
        return done

    def has_validation_after(self, step: int) -> bool:
        """Whether a validation follows a step."""
        if not 0 < step <= self.end:
            return False
        validations = next(revision.validations for revision in reversed(self.revisions) if revision.step < step)
        return self._validations_until(step, validations) > self._validations_until(step - 1, validations)

    def remaining_validations(self, step: int, validations: int) -> int:
        """How many of a number of validations remain after a step."""
        return validations - self._validations_until(step, validations)

    def _validations_until(self, step: int, validations: int) -> int:
        return math.floor(self.progress(step) * validations + ROUNDING_TOLERANCE)

    def run_fields(self) -> dict[str, Any]:
        """The fields of run.json."""
        budget = "steps" if self.seconds is None else "time"
        return {"steps": self.end, "budget": budget, "plan": [revision._asdict() for revision in self.revisions]}


def read_plan(folder: Path, info: Mapping[str, Any], max_time: str | None) -> StepPlan:
    """Read the plan of a run.

    Args:
        folder: the run folder.
        info: the content of run.json.
        max_time: the time budget, HH:MM:SS.

    Raises:
        UserError: there is no valid plan.
    """
    try:
        revisions = [Revision(**fields) for fields in info["plan"]]
        is_valid = all(type(value) is int for revision in revisions for value in revision)
        _check_order(revisions)
    except (KeyError, TypeError, ValueError):
        is_valid = False
    is_timed = info.get("budget") == "time"
    time_budget = seconds(max_time) if is_timed else None
    if not is_valid or (is_timed and time_budget is None):
        raise UserError(f"{folder / RUN}: plan: is not a valid step plan; restore the file, or start a new run")
    return StepPlan(revisions, time_budget)


def _check_order(revisions: Sequence[Revision]) -> None:
    """Check that revisions start at step 0, and each one before the end of the previous one.

    Raises:
        ValueError: they do not.
    """
    previous = None
    for revision in revisions:
        is_in_order = revision.step == 0 if previous is None else previous.step < revision.step < previous.steps
        if not is_in_order or revision.steps <= revision.step or revision.validations < 1:
            raise ValueError
        previous = revision
    if previous is None:
        raise ValueError
