"""Has Lightning validate and end where a run's plan says, also after the plan was revised."""

from __future__ import annotations

from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback

from attnx.training.callbacks.step_plan import StepPlan


class FollowPlan(Callback):
    """Tell Lightning after each batch whether to validate, and where to end; what it was built with is overruled.

    Args:
        plan: of the run's steps.
    """

    def __init__(self, plan: StepPlan) -> None:
        self.plan = plan

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Say whether the step that a resumed run begins at was validated."""
        self._follow(trainer)

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Say whether a validation is due."""
        self._follow(trainer)

    def _follow(self, trainer: lightning.Trainer) -> None:
        loop = trainer.fit_loop
        loop.epoch_loop.max_steps = self.plan.end
        batches = loop.total_batch_idx + 1
        is_due = self.plan.validates(trainer.global_step) and not loop._should_accumulate()
        # Lightning validates where this divides the number of batches.
        trainer.val_check_batch = batches if is_due else batches + 1
