"""Step plan of a run: at which optimizer steps it validates and ends, and its progress."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lightning import Callback, Trainer

from attnx.errors import UserError
from attnx.registry.option_types import seconds
from attnx.runs.layout import RUN_JSON

# Keeps rounding errors of products of shares from moving a validation by a step.
ROUNDING_TOLERANCE = 1e-9


class Revision(NamedTuple):
    """A revision of the plan, valid from an optimizer step until the next revision."""

    step: int  #: steps taken before it
    steps: int  #: steps after which training ends
    validations: int  #: number of validations, at equal shares of the training


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
        return self.validations_until(step, validations) > self.validations_until(step - 1, validations)

    def validations_until(self, step: int, validations: int) -> int:
        """How many of a number of validations are due until a step."""
        return math.floor(self.progress(step) * validations + ROUNDING_TOLERANCE)

    def run_fields(self) -> dict[str, Any]:
        """The fields of run.json."""
        budget = "steps" if self.seconds is None else "time"
        return {"steps": self.end, "budget": budget, "step_plan": [revision._asdict() for revision in self.revisions]}


def read_plan(folder: Path, info: Mapping[str, Any], max_time: str | None) -> StepPlan:
    """Read the plan of a run from the content of its run.json; ``max_time`` is the time budget, HH:MM:SS.

    Raises:
        UserError: there is no valid plan.
    """
    try:
        revisions = [Revision(**fields) for fields in info["step_plan"]]
    except (KeyError, TypeError):
        revisions = []
    is_timed = info.get("budget") == "time"
    time_budget = seconds(max_time) if is_timed else None
    is_valid = (
        all(type(value) is int for revision in revisions for value in revision)
        and [revision.step for revision in revisions[:1]] == [0]
        and all(revision.step < revision.steps and revision.validations > 0 for revision in revisions)
        and all(earlier.step < later.step < earlier.steps for earlier, later in itertools.pairwise(revisions))
    )
    if not is_valid or (is_timed and time_budget is None):
        raise UserError(
            f"{folder / RUN_JSON}: step_plan: is not a valid step plan; restore the file, or start a new run"
        )
    return StepPlan(revisions, time_budget)


def is_validation_due(trainer: Trainer) -> bool:
    """Whether a validation follows the batch that has ended, once ``StepPlanCallback`` has seen it."""
    batches: int = trainer.fit_loop.total_batch_idx + 1
    return batches % int(trainer.val_check_batch or 1) == 0


class StepPlanCallback(Callback):
    """Has Lightning validate and end by the plan, which may be revised, whatever the trainer was built with."""

    def __init__(self, plan: StepPlan) -> None:
        self.plan = plan

    def on_train_start(self, trainer: Trainer, *_: Any) -> None:
        """Set the last step and the next validation for the step at which a resumed run begins."""
        self.on_train_batch_end(trainer)

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        """Set the last step and the next validation."""
        loop = trainer.fit_loop
        loop.epoch_loop.max_steps = self.plan.end
        batches = loop.total_batch_idx + 1
        is_validated = self.plan.has_validation_after(trainer.global_step) and not loop._should_accumulate()
        # Lightning validates where this divides the number of batches.
        trainer.val_check_batch = batches if is_validated else batches + 1
