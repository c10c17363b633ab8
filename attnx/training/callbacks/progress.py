"""Show a run's progress: a bar in a terminal, a line per validation elsewhere, and a file for its sweep."""

from __future__ import annotations

from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from attnx.training.callbacks.heartbeat import Heartbeat
from attnx.training.callbacks.throughput import Throughput

# Steps between updates of the loss; reading it waits for the device.
LOSS_INTERVAL_STEPS = 10
# With more metrics than this (one a language), only the loss and the monitored one are shown.
MAX_METRICS = 4


class ShowProgress(Callback):
    """Shows progress with rich.

    Args:
        console: where to show it.
        throughput: measures examples a second.
        monitor: the metric that ranks checkpoints.
    """

    def __init__(self, console: Console, throughput: Throughput, monitor: str) -> None:
        self.console, self.throughput, self.monitor = console, throughput, monitor
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.heartbeat = Heartbeat()
        self._task: TaskID | None = None
        self._metrics = ""

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Start the bar at the step of a resumed run."""
        if trainer.is_global_zero:
            self.bar.start()
            self._task = self.bar.add_task(
                "training", total=trainer.max_steps, completed=trainer.global_step, status=""
            )

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Move the bar."""
        if self._task is None:
            return
        self.heartbeat.beat(trainer.global_step)
        fields: dict[str, Any] = {}
        if trainer.global_step % LOSS_INTERVAL_STEPS == 0:
            fields = {"status": f"loss {float(outputs['loss']):.3f}  {self._speed()}  {self._metrics}"}
        self.bar.update(self._task, completed=trainer.global_step, total=trainer.max_steps, **fields)

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Show the metrics."""
        logged = trainer.callback_metrics
        names = [name for name in logged if name.startswith("valid_") and name != "valid_perplexity"]
        if len(names) > MAX_METRICS:
            names = ["valid_loss", self.monitor]
        self._metrics = "  ".join(f"{name} {float(logged[name]):.4g}" for name in names)
        if trainer.is_global_zero and not self.console.is_terminal:
            line = f"step {trainer.global_step}/{trainer.max_steps}  {self._metrics}  {self._speed()}"
            self.console.print(line, soft_wrap=True)

    def _speed(self) -> str:
        return f"{self.throughput.examples_per_second:.0f} examples/s"

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """End the bar."""
        self.bar.stop()

    def on_exception(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException
    ) -> None:
        """End the bar."""
        self.bar.stop()
