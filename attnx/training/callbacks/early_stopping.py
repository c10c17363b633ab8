"""Early stopping that breaks ties by the loss, and survives a resume."""

from __future__ import annotations

import math
from typing import Any

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping

from attnx.training.callbacks.checkpoint import LOSS


class ResumableEarlyStopping(EarlyStopping):
    """Lightning's early stopping, for which a lower loss at an equal metric is an improvement.

    A metric may stay at its worst for long, as a BLEU of 0. It remembers that it has stopped a run: one that is killed
    during its test would otherwise train on when it is resumed.
    """

    has_stopped = False
    best_loss = math.inf

    def on_train_start(self, trainer: Trainer, *_: Any) -> None:
        """Stop again."""
        trainer.should_stop = self.has_stopped

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Decide whether to stop, and remember it."""
        score, loss = trainer.callback_metrics[self.monitor], float(trainer.callback_metrics[LOSS])
        if float(score) == float(self.best_score) and loss < self.best_loss:
            self.wait_count = -1  # Lightning will add one, since the metric is no better
        super().on_validation_end(trainer, pl_module)
        self.best_loss = loss if self.wait_count == 0 else self.best_loss
        self.has_stopped = self.has_stopped or trainer.should_stop

    def state_dict(self) -> dict[str, Any]:
        """State for a resumed run."""
        return {**super().state_dict(), "has_stopped": self.has_stopped, "best_loss": self.best_loss}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state."""
        super().load_state_dict(state_dict)
        self.has_stopped, self.best_loss = state_dict["has_stopped"], state_dict["best_loss"]
