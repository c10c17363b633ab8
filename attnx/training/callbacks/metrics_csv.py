"""Write ``metrics.csv``: rows of training losses every few steps, and a row per validation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning import Callback, Trainer
from torch import Tensor

from attnx.files.atomic_files import fsync, write_text
from attnx.runs.results import STEP, VALID, with_row
from attnx.training.callbacks.step_plan import is_validation_due
from attnx.training.callbacks.throughput import Throughput

# So many rows of training losses are evenly spaced; then their distance doubles whenever the steps have doubled.
EVENLY_SPACED_ROWS = 1000


class MetricsCsv(Callback):
    """Adds rows to a CSV file, atomically; a loss is the mean since the row before.

    ``interval`` is the number of optimizer steps between rows of training losses. A validation has a row of its own,
    with its step's training loss. A resumed run continues after the rows that its checkpoint counts; rows that a killed
    run wrote after its last checkpoint are written again.
    """

    def __init__(self, path: Path, throughput: Throughput, interval: int) -> None:
        self.path, self.throughput, self.interval = path, throughput, interval
        self.row_count = 0
        self._losses = StepLosses()
        self._epoch = 0  # of the last batch; at the end of training the trainer's is one higher

    def on_fit_start(self, trainer: Trainer, *_: Any) -> None:
        """Delete the rows that were written after the checkpoint."""
        if not trainer.is_global_zero:
            return
        lines = self._read().split("\r\n")
        if not self.row_count:
            self.path.unlink(missing_ok=True)
        elif len(lines) > self.row_count + 2:  # the header, the rows, and nothing after the last end
            self._write("\r\n".join([*lines[: self.row_count + 1], ""]))

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *_: Any) -> None:
        """Keep the loss of a step; add the row that is due."""
        if not trainer.is_global_zero or trainer.fit_loop._should_accumulate():
            return
        self._losses.add(pl_module.step_loss)
        self._epoch, step = trainer.current_epoch, trainer.global_step
        if step % row_interval(step, self.interval) == 0 and not is_validation_due(trainer):
            self._add_row(trainer, {})

    def on_validation_end(self, trainer: Trainer, *_: Any) -> None:
        """Write the row of a validation."""
        if trainer.is_global_zero:
            logged = trainer.callback_metrics.items()
            self._add_row(trainer, {name: float(value) for name, value in logged if name.startswith(VALID)})

    def on_save_checkpoint(self, trainer: Trainer, *_: Any) -> None:
        """Flush the rows that the checkpoint counts to the disk."""
        if trainer.is_global_zero and self.row_count:
            fsync(self.path)

    def _add_row(self, trainer: Trainer, metrics: Mapping[str, float]) -> None:
        loss = self._losses.take_mean()
        row = {
            STEP: str(trainer.global_step),
            "epoch": str(self._epoch),
            "learning_rate": f"{trainer.optimizers[0].param_groups[0]['lr']:.6g}",
            "train_loss": "" if loss is None else f"{float(loss):.6g}",
            "examples_per_second": f"{self.throughput.examples_per_second:.1f}",
            "tokens_per_second": f"{self.throughput.tokens_per_second:.1f}",
            **{name: f"{value:.6g}" for name, value in metrics.items()},
        }
        self._write(with_row(self._read() if self.row_count else "", row))
        self.row_count += 1

    def _read(self) -> str:
        return self.path.read_bytes().decode() if self.path.is_file() else ""

    def _write(self, text: str) -> None:
        write_text(self.path, text)

    def state_dict(self) -> dict[str, Any]:
        """State for a resumed run."""
        return {"row_count": self.row_count, "losses": self._losses.state(), "epoch": self._epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state."""
        self.row_count, self._epoch = state_dict["row_count"], state_dict["epoch"]
        self._losses.restore(state_dict["losses"])


def row_interval(step: int, interval: int) -> int:
    """Steps between rows of training losses around a step; it follows from the step alone, so resuming changes no row.

    >>> [row_interval(step, 50) for step in (50, 50_000, 50_050, 100_000, 100_050)]
    [50, 50, 100, 100, 200]
    """
    while step > EVENLY_SPACED_ROWS * interval:
        interval *= 2
    return interval


class StepLosses:
    """Losses since the last mean. They stay where they were computed: to read one waits for a GPU.

    >>> losses = StepLosses()
    >>> for loss in (1.0, 3.0):
    ...     losses.add(torch.tensor(loss))
    >>> losses.take_mean(), losses.take_mean()
    (tensor(2., dtype=torch.float64), None)
    """

    def __init__(self) -> None:
        self._losses: list[Tensor] = []

    def add(self, loss: Tensor) -> None:
        """Add the loss () of a step."""
        self._losses.append(loss)

    def take_mean(self) -> Tensor | None:
        """The mean (), after which there are none; None if there are none."""
        if not self._losses:
            return None
        mean = self._stacked().mean()
        self._losses = []
        return mean

    def state(self) -> Tensor:
        """The losses (n,) on the CPU, for a checkpoint."""
        return self._stacked().cpu() if self._losses else torch.zeros(0)

    def restore(self, state: Tensor) -> None:
        """Restore the losses of a checkpoint."""
        self._losses = list(state.unbind())

    def _stacked(self) -> Tensor:
        device = self._losses[-1].device  # a checkpoint's losses are on the CPU
        return torch.stack([loss.to(device, torch.float64) for loss in self._losses])
