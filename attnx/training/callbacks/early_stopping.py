"""Early stopping that survives a resume."""

from __future__ import annotations

from typing import Any

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping


class ResumableEarlyStopping(EarlyStopping):
    """Lightning's early stopping, which remembers that it has stopped a run.

    A run that is killed during its test would otherwise train on when it is resumed.
    """

    has_stopped = False

    def on_train_start(self, trainer: Trainer, *_: Any) -> None:
        """Stop again."""
        trainer.should_stop = self.has_stopped

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Decide whether to stop, and remember it."""
        super().on_validation_end(trainer, pl_module)
        self.has_stopped = self.has_stopped or trainer.should_stop

    def state_dict(self) -> dict[str, Any]:
        """State for a resumed run."""
        return {**super().state_dict(), "has_stopped": self.has_stopped}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state."""
        super().load_state_dict(state_dict)
        self.has_stopped = state_dict["has_stopped"]
