"""Stops a run that no longer gets better, also if it was killed in between."""

from __future__ import annotations

from typing import Any

import lightning
from lightning.pytorch.callbacks import EarlyStopping


class ResumableEarlyStopping(EarlyStopping):
    """Lightning's early stopping, which remembers that it has stopped a run.

    Else one that is killed while it is tested would train on when it is resumed.
    """

    stopped = False

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Stop again."""
        trainer.should_stop = self.stopped

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Look whether it is time to stop."""
        super().on_validation_end(trainer, pl_module)
        self.stopped = self.stopped or trainer.should_stop

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run must know."""
        return {**super().state_dict(), "stopped": self.stopped}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        super().load_state_dict(state_dict)
        self.stopped = state_dict.get("stopped", False)
