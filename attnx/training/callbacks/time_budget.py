"""Time budget of a run: revise the number of steps so that training takes a given time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning import Callback, Trainer

from attnx.runs.info import update_info
from attnx.training.callbacks.step_plan import Revision, StepPlan
from attnx.training.callbacks.throughput import Throughput
from attnx.training.distributed.process_group import any_rank

# Share of the time reserved for validations until one was timed, and the largest share of the remaining time that
# validations get.
VALIDATION_SHARE, MAX_VALIDATION_SHARE = 0.06, 0.5
# Share of the remainder after which the plan is checked again, and how far its end may be off, as a share of the time.
CHECK_SHARE, TOLERANCE_SHARE = 0.2, 0.01


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
