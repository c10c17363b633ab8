"""Have Lightning validate and end by a run's step plan, which may be revised."""

from __future__ import annotations

from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback

from attnx.training.callbacks.step_plan import StepPlan


class FollowPlan(Callback):
    """Sets Lightning's last step and next validation after each batch, whatever the trainer was built with.

    Args:
        plan: the run's steps.
    """

    def __init__(self, plan: StepPlan) -> None:
        self.plan = plan

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Set them for the step at which a resumed run begins."""
        self._follow(trainer)

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Set them."""
        self._follow(trainer)

    def _follow(self, trainer: lightning.Trainer) -> None:
        loop = trainer.fit_loop
        loop.epoch_loop.max_steps = self.plan.end
        batches = loop.total_batch_idx + 1
        is_validated = self.plan.has_validation_after(trainer.global_step) and not loop._should_accumulate()
        # Lightning validates where this divides the number of batches.
        trainer.val_check_batch = batches if is_validated else batches + 1
