"""Writes ``metrics.csv``: one row per validation, with the training loss since the one before."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback

from attnx.callbacks.throughput import Throughput


class MetricsFile(Callback):
    """Append rows to a CSV file; a resumed run goes on where the file ends.

    Args:
        path: the file; its columns for what a validation logs follow from the first one.
        throughput: what counts words a second.
    """

    def __init__(self, path: Path, throughput: Throughput) -> None:
        self.path, self.throughput = path, throughput
        self._losses: list[Any] = []
        self._epoch = 0  # that of the last batch: once training has ended, the trainer counts one more

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
        self._epoch = trainer.current_epoch

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Write a row."""
        if not trainer.is_global_zero:
            return
        logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
        losses = [float(loss) for loss in self._losses]
        self._losses = []
        found = {name: f"{value:.6g}" for name, value in logged.items() if name.startswith("valid_")}
        row = {
            "step": trainer.global_step,
            "epoch": self._epoch,
            "learning_rate": f"{trainer.optimizers[0].param_groups[0]['lr']:.6g}",
            "train_loss": f"{sum(losses) / len(losses):.6g}" if losses else "",
            **found,
            "words_per_second": f"{self.throughput.words_per_second:.1f}",
            "tokens_per_second": f"{self.throughput.tokens_per_second:.1f}",
        }
        new = not self.path.exists()
        columns = list(row) if new else self.path.read_text(encoding="utf-8").partition("\n")[0].rstrip().split(",")
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns)
            if new:
                writer.writeheader()
            writer.writerow(row)
