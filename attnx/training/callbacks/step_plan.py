"""Step plan of a run: after which optimizer steps it validates and ends, its progress, and its time budget."""

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
from attnx.runs.info import update_info
from attnx.runs.layout import RUN_JSON
from attnx.training.callbacks.throughput import Throughput
from attnx.training.distributed.process_group import any_rank

# Keeps rounding errors of products of shares from moving a validation by a step.
ROUNDING_TOLERANCE = 1e-9
# Share of the time reserved for validations until one was timed, and the largest share of the remaining time that
# validations get.
VALIDATION_SHARE, MAX_VALIDATION_SHARE = 0.06, 0.5
# Share of the remainder after which the plan is checked again, and how far its end may be off, as a share of the time.
CHECK_SHARE, TOLERANCE_SHARE = 0.2, 0.01


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


class TimeBudget(Callback):
    """Revises a plan so that the training, validations included, takes the time budget.

    The plan is checked when a fifth of the remainder has passed, by the clock or by progress, and so on: checks become
    more frequent towards the end. The rate is measured over the steps since the last check. A validation is expected to
    take as long as the last one. If validations would take more than half of the remaining time, fewer are made, but
    the last one always. In a process group rank 0's clock decides. A plan that was revised is recorded in run.json.
    """

    def __init__(self, plan: StepPlan, throughput: Throughput, folder: Path) -> None:
        assert plan.seconds is not None
        self.plan, self.seconds, self.throughput, self.folder = plan, plan.seconds, throughput, folder
        self.max_validations = plan.revisions[0].validations
        self.validation_seconds = VALIDATION_SHARE * plan.seconds / self.max_validations
        self._validation_start: float | None = None
        self._next_check = 0.0  # share of the run at which to check again

    def on_train_start(self, trainer: Trainer, *_: Any) -> None:
        """Start to time steps."""
        self._schedule_check(trainer.global_step)

    def on_validation_start(self, *_: Any) -> None:
        """Start to time a validation with its checkpoint, which lasts until the next batch."""
        self._validation_start = self.throughput.elapsed

    def on_train_batch_start(self, *_: Any) -> None:
        """Note the time of the validation that has ended."""
        if self._validation_start is not None:
            self.validation_seconds = self.throughput.elapsed - self._validation_start
            self._check_time += self.validation_seconds
            self._validation_start = None

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        """Check the plan, if it is time to."""
        step = trainer.global_step
        # Up to the last revision, a run that was killed repeats what it did.
        if trainer.fit_loop._should_accumulate() or not self.plan.revisions[-1].step < step < self.plan.end:
            return
        if any_rank(trainer.is_global_zero and self._share_done(step) >= self._next_check):
            revision = trainer.strategy.broadcast(self._revise(step) if trainer.is_global_zero else None)
            if revision is not None:
                self.plan.revisions.append(revision)
                if trainer.is_global_zero:
                    update_info(self.folder, **self.plan.run_fields())
            self._schedule_check(step)

    def _share_done(self, step: int) -> float:
        """The share of the run that is done, by the clock or by progress."""
        return max(self.throughput.elapsed / self.seconds, self.plan.progress(step))

    def _schedule_check(self, step: int) -> None:
        share = self._share_done(step)
        self._next_check = share + CHECK_SHARE * max(0.0, 1 - share)
        self._check_step, self._check_time = step, self.throughput.elapsed

    def _revise(self, step: int) -> Revision | None:
        """A revision for the remaining time; None if the plan fits."""
        plan, elapsed = self.plan, self.throughput.elapsed
        seconds, remaining_progress = self.seconds - elapsed, 1 - plan.progress(step)
        affordable = int(MAX_VALIDATION_SHARE * seconds / max(self.validation_seconds, 1e-9) / remaining_progress)
        validations = max(1, min(self.max_validations, affordable))
        remaining_validations = validations - plan.validations_until(step, validations)
        seconds -= self.validation_seconds * (remaining_validations + plan.has_validation_after(step))
        rate = (step - self._check_step) / max(elapsed - self._check_time, 1e-9)
        end = step + max(1, round(seconds * rate))
        is_close = abs(end - plan.end) <= TOLERANCE_SHARE * self.seconds * rate
        if is_close and validations == plan.revisions[-1].validations:
            return None
        return Revision(step, end, validations)

    def state_dict(self) -> dict[str, Any]:
        """State for a resumed run."""
        return {"validation_seconds": self.validation_seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state."""
        self.validation_seconds = state_dict["validation_seconds"]
