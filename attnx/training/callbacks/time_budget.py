"""Holds a run to its time: revises how many steps are left as often as a fifth of what is left has passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback

from attnx.training.callbacks.checkpoint import any_process
from attnx.training.callbacks.step_plan import Revision, StepPlan
from attnx.training.callbacks.throughput import Throughput

# The share of the time that is left for validations before one was timed, and the most that validations get.
SPARE, MOST = 0.06, 0.5
# The share of what is left after which the plan is looked at again, and the share of the time that it may be off.
AGAIN, TOLERANCE = 0.2, 0.01


class TimeBudget(Callback):
    """Revise a plan so that the training, validations included, takes the time that it may.

    The plan is looked at when a fifth of what was left has passed, by the clock or by progress, and so on: looks are
    closer together towards the end. The rate is that of the steps since the last
    look. Validations take what the last one took; if they would take more than half of what is left, fewer are made,
    the last one always. In several processes the first one's clock decides.

    Args:
        plan: what is revised; it has a time.
        throughput: says how many seconds were spent, those before a run was resumed included.
        record: keeps a plan that was revised.
    """

    def __init__(self, plan: StepPlan, throughput: Throughput, record: Callable[[StepPlan], None]) -> None:
        assert plan.seconds is not None
        self.plan, self.seconds, self.throughput, self.record = plan, plan.seconds, throughput, record
        self.most_validations = plan.revisions[0].validations
        self.validation = SPARE * plan.seconds / self.most_validations  # seconds that one takes
        self._validating: float | None = None
        self._next = 0.0  # where on the way, from 0 to 1, to look again

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Time steps from here on."""
        self._look_later(trainer.global_step)

    def on_validation_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Time a validation, its checkpoint included: until the next batch begins."""
        self._validating = self.throughput.spent

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Take the time of the validation that ended."""
        if self._validating is not None:
            self.validation = self.throughput.spent - self._validating
            self._since += self.validation
            self._validating = None

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Look whether the plan still holds, if it is time to."""
        step = trainer.global_step
        # Up to the last revision, a run that was killed does again what it did.
        if trainer.fit_loop._should_accumulate() or not self.plan.revisions[-1].step < step < self.plan.end:
            return
        if any_process(trainer, trainer.is_global_zero and self._way(step) >= self._next):
            revision = trainer.strategy.broadcast(self._revision(step) if trainer.is_global_zero else None)
            if revision is not None:
                self.plan.revisions.append(revision)
                if trainer.is_global_zero:
                    self.record(self.plan)
            self._look_later(step)

    def _way(self, step: int) -> float:
        """How far the run is, by the clock or by its progress."""
        return max(self.throughput.spent / self.seconds, self.plan.progress(step))

    def _look_later(self, step: int) -> None:
        way = self._way(step)
        self._next = way + AGAIN * max(0.0, 1 - way)
        self._first, self._since = step, self.throughput.spent

    def _revision(self, step: int) -> Revision | None:
        """The plan for what is left of the time; None if it is what is planned."""
        plan, spent = self.plan, self.throughput.spent
        if step == self._first:  # as just after a run was resumed
            return None
        left, undone = self.seconds - spent, 1 - plan.progress(step)
        affordable = int(MOST * left / max(self.validation, 1e-9) / undone)
        validations = max(1, min(self.most_validations, affordable))
        left -= self.validation * (plan.validates(step) + plan.validations_left(step, validations))
        rate = (step - self._first) / max(spent - self._since, 1e-9)
        steps = max(1, round(left * rate))
        if abs(step + steps - plan.end) <= TOLERANCE * self.seconds * rate and validations == plan.validations:
            return None
        return Revision(step, step + steps, validations)

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run must know."""
        return {"validation": self.validation}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self.validation = state_dict["validation"]
