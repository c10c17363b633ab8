"""Writes ``metrics.csv``: one row per validation, with the training loss since the one before."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback

from attnx.files.atomic_files import atomic_write, fsync
from attnx.training.callbacks.throughput import Throughput


class MetricsFile(Callback):
    """Add rows to a CSV file, which is whole at any moment.

    A resumed run goes on behind the rows that there were when its checkpoint was saved: what a run that was killed
    wrote after it, is written again.

    Args:
        path: the file; its columns for what a validation logs follow from the first one.
        throughput: what counts examples a second.
    """

    def __init__(self, path: Path, throughput: Throughput) -> None:
        self.path, self.throughput = path, throughput
        self.rows: int | None = None
        self._losses: list[Any] = []
        self._epoch = 0  # that of the last batch: once training has ended, the trainer counts one more

    def on_fit_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Take away the rows that were written after the checkpoint."""
        if trainer.is_global_zero:
            lines = self._read().splitlines(keepends=True)
            if self.rows is None:  # of a checkpoint from before they were counted
                self.rows = max(0, len(lines) - 1)
            elif not self.rows:
                self.path.unlink(missing_ok=True)
            elif len(lines) > self.rows + 1:
                self._write("".join(lines[: self.rows + 1]))

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
        losses, self._losses = self._losses, []
        if not trainer.is_global_zero:
            return
        logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
        losses = [float(loss) for loss in losses]
        found = {name: f"{value:.6g}" for name, value in logged.items() if name.startswith("valid_")}
        row = {
            "step": trainer.global_step,
            "epoch": self._epoch,
            "learning_rate": f"{trainer.optimizers[0].param_groups[0]['lr']:.6g}",
            "train_loss": f"{sum(losses) / len(losses):.6g}" if losses else "",
            **found,
            "examples_per_second": f"{self.throughput.examples_per_second:.1f}",
            "tokens_per_second": f"{self.throughput.tokens_per_second:.1f}",
        }
        before = self._read() if self.rows else ""
        columns = before.partition("\r\n")[0].split(",") if before else list(row)
        written = io.StringIO(newline="")
        writer = csv.DictWriter(written, columns)
        if not before:
            writer.writeheader()
        writer.writerow(row)
        self._write(before + written.getvalue())
        self.rows = (self.rows or 0) + 1

    def _read(self) -> str:
        return self.path.read_bytes().decode() if self.path.is_file() else ""

    def _write(self, text: str) -> None:
        with atomic_write(self.path) as partial:
            partial.write_bytes(text.encode())
            fsync(partial)

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run must know."""
        losses = torch.stack(self._losses).cpu() if self._losses else torch.zeros(0)
        return {"rows": self.rows, "losses": losses, "epoch": self._epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self.rows, self._epoch = state_dict["rows"], state_dict["epoch"]
        self._losses = [*state_dict["losses"]]
