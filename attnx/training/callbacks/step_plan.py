"""Which optimizer steps a run takes: where it ends, where it validates, and how much of it is done. It has no clock."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from attnx.errors import UserError
from attnx.registry.param_types import seconds
from attnx.runs.layout import RUN

# Rounding of a product of shares is not to move a validation by a step.
ROUNDING = 1e-9


class Revision(NamedTuple):
    """What holds from an optimizer step on, until the next revision.

    Attributes:
        step: steps taken before it holds.
        steps: steps after which training ends.
        validations: equal shares of the training, each of which ends with a validation.
    """

    step: int
    steps: int
    validations: int


@dataclass
class StepPlan:
    """The steps of a run, as a function of its revisions alone.

    Progress is the share of the training that is done. A revision changes how many steps the rest takes: progress goes
    on from where it stands and reaches 1 at the new end. So schedules of progress end where they should, and a resumed
    run that knows the revisions takes the same steps.

    Attributes:
        revisions: in their order; the first one holds from step 0.
        seconds: the time that the run may take, if its clock decides; None where the number of steps is fixed.

    >>> plan = StepPlan([Revision(0, 8, 4)])
    >>> plan.revisions.append(Revision(4, 6, 4))
    >>> plan.end, [plan.progress(step) for step in range(7)]
    (6, [0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0])
    >>> [step for step in range(7) if plan.validates(step)]
    [2, 4, 5, 6]
    """

    revisions: list[Revision]
    seconds: float | None = None

    @property
    def end(self) -> int:
        """Steps after which training ends, as far as is known."""
        return self.revisions[-1].steps

    @property
    def validations(self) -> int:
        """Shares into which validations divide the training, as far as is known."""
        return self.revisions[-1].validations

    def progress(self, step: int) -> float:
        """The share of the training that is done after some steps, from 0 to 1."""
        if step >= self.end:
            return 1.0
        done = 0.0
        for revision, until in zip(self.revisions, [*(later.step for later in self.revisions[1:]), step], strict=True):
            taken = min(until, step) - revision.step
            if taken <= 0:
                break
            done += (1 - done) * taken / (revision.steps - revision.step)
        return done

    def validates(self, step: int) -> bool:
        """Whether a validation follows a step."""
        if not 0 < step <= self.end:
            return False
        shares = next(revision.validations for revision in reversed(self.revisions) if revision.step < step)
        return self._validated(step, shares) > self._validated(step - 1, shares)

    def validations_left(self, step: int, shares: int) -> int:
        """How many validations follow after a step, if they divide the training into so many shares."""
        return shares - self._validated(step, shares)

    def _validated(self, step: int, shares: int) -> int:
        return math.floor(self.progress(step) * shares + ROUNDING)

    def facts(self) -> dict[str, Any]:
        """What run.json says of the steps."""
        budget = "steps" if self.seconds is None else "time"
        return {"steps": self.end, "budget": budget, "plan": [revision._asdict() for revision in self.revisions]}


def read_plan(folder: Path, facts: Mapping[str, Any], max_time: str | None) -> StepPlan:
    """Read the plan of a run.

    Args:
        folder: of the run.
        facts: of its run.json.
        max_time: that the run was given, HH:MM:SS.

    Raises:
        UserError: there is no whole plan.
    """
    try:
        revisions = [Revision(**held) for held in facts["plan"]]
        known = all(type(number) is int for revision in revisions for number in revision)
        _check_order(revisions)
    except (KeyError, TypeError, ValueError):
        known = False
    allowed = seconds(max_time) if facts.get("budget") == "time" else None
    if not known or (facts.get("budget") == "time" and allowed is None):
        raise UserError(f"{folder / RUN}: plan: it is not the steps of a run; put it back, or start anew")
    return StepPlan(revisions, allowed)


def _check_order(revisions: Sequence[Revision]) -> None:
    """See that revisions follow each other, from step 0, before the end of the one before.

    Raises:
        ValueError: they do not.
    """
    before = None
    for revision in revisions:
        starts = revision.step == 0 if before is None else before.step < revision.step < before.steps
        if not starts or revision.steps <= revision.step or revision.validations < 1:
            raise ValueError
        before = revision
    if before is None:
        raise ValueError
