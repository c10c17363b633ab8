"""Write ``metrics.csv``: one row per validation, with the mean training loss since the previous one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer

from attnx.files.atomic_files import atomic_write, fsync
from attnx.training.callbacks.throughput import Throughput


class MetricsFile(Callback):
    """Adds rows to a CSV file, atomically.

    The columns of metrics follow from the first validation. A resumed run continues after the rows that its checkpoint
    counts; rows that a killed run wrote after its last checkpoint are written again.
    """

    def __init__(self, path: Path, throughput: Throughput) -> None:
        self.path, self.throughput = path, throughput
        self.row_count = 0
        self._losses: list[Any] = []
        self._epoch = 0  # of the last batch; at the end of training the trainer's is one higher

    def on_fit_start(self, trainer: Trainer, *_: Any) -> None:
        """Delete the rows that were written after the checkpoint."""
        if not trainer.is_global_zero:
            return
        lines = self._read().splitlines(keepends=True)
        if not self.row_count:
            self.path.unlink(missing_ok=True)
        elif len(lines) > self.row_count + 1:
            self._write("".join(lines[: self.row_count + 1]))

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: Any) -> None:
        """Keep the loss; it is read, which waits for a GPU, only when a row is written."""
        self._losses.append(outputs["loss"].detach())
        self._epoch = trainer.current_epoch

    def on_validation_end(self, trainer: Trainer, *_: Any) -> None:
        """Write a row."""
        losses, self._losses = self._losses, []
        if not trainer.is_global_zero:
            return
        row = self._row(trainer, [float(loss) for loss in losses])
        text = self._read() if self.row_count else ""
        text = text or ",".join(row) + "\r\n"
        columns = text.partition("\r\n")[0].split(",")
        self._write(text + ",".join(str(row[name]) for name in columns) + "\r\n")
        self.row_count += 1

    def _row(self, trainer: Trainer, losses: list[float]) -> dict[str, Any]:
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("valid_")}
        return {
            "step": trainer.global_step,
            "epoch": self._epoch,
            "learning_rate": f"{trainer.optimizers[0].param_groups[0]['lr']:.6g}",
            "train_loss": f"{sum(losses) / len(losses):.6g}" if losses else "",
            **{name: f"{value:.6g}" for name, value in metrics.items()},
            "examples_per_second": f"{self.throughput.examples_per_second:.1f}",
            "tokens_per_second": f"{self.throughput.tokens_per_second:.1f}",
        }

    def _read(self) -> str:
        return self.path.read_bytes().decode() if self.path.is_file() else ""

    def _write(self, text: str) -> None:
        with atomic_write(self.path) as partial:
            partial.write_bytes(text.encode())
            fsync(partial)

    def state_dict(self) -> dict[str, Any]:
        """State for a resumed run."""
        losses = torch.stack(self._losses).cpu() if self._losses else torch.zeros(0)
        return {"row_count": self.row_count, "losses": losses, "epoch": self._epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state."""
        self.row_count, self._epoch = state_dict["row_count"], state_dict["epoch"]
        self._losses = [*state_dict["losses"]]
