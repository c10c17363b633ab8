"""Writes ``metrics.csv``: one row per validation, with the training loss since the one before."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback

from attnx.callbacks.throughput import Throughput


class MetricsFile(Callback):
    """Append rows to a CSV file; a resumed run goes on where the file ends.

    Args:
        path: the file.
        metrics: names of the validation metrics, as logged.
        throughput: what counts words a second.
    """

    def __init__(self, path: Path, metrics: Sequence[str], throughput: Throughput) -> None:
        self.path, self.throughput = path, throughput
        self.columns = [
            "step", "epoch", "learning_rate", "train_loss", *metrics, "words_per_second", "tokens_per_second"
        ]  # fmt: skip
        self._losses: list[Any] = []

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Keep the loss; it is read (which waits for a GPU) only when a row is written."""
        self._losses.append(outputs["loss"].detach())

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Write a row."""
        if not trainer.is_global_zero:
            return
        logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
        losses = [float(loss) for loss in self._losses]
        self._losses = []
        row = {
            **{name: f"{logged[name]:.6g}" for name in self.columns if name in logged},
            "step": trainer.global_step,
            "epoch": trainer.current_epoch,
            "learning_rate": f"{trainer.optimizers[0].param_groups[0]['lr']:.6g}",
            "train_loss": f"{sum(losses) / len(losses):.6g}" if losses else "",
            "words_per_second": f"{self.throughput.words_per_second:.1f}",
            "tokens_per_second": f"{self.throughput.tokens_per_second:.1f}",
        }
        new = not self.path.exists()
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns)
            if new:
                writer.writeheader()
            writer.writerow(row)
