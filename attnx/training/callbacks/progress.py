"""Shows how far a run is: a bar in a terminal, a line per validation anywhere else, and a sweep that listens."""

from __future__ import annotations

from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from attnx.training.callbacks.heartbeat import Heartbeat
from attnx.training.callbacks.throughput import Throughput

# Steps between updates of the loss: reading it waits for the device.
EVERY = 10
# Measures shown after a validation; where there are more (one a language), only what decides is.
MOST = 4


class ShowProgress(Callback):
    """Draw progress with rich.

    Args:
        console: where to draw.
        throughput: what counts examples a second.
        monitor: the metric that says which weights are best.
    """

    def __init__(self, console: Console, throughput: Throughput, monitor: str) -> None:
        self.console, self.throughput, self.monitor = console, throughput, monitor
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.heartbeat = Heartbeat()
        self._task: Any = None
        self._judged = ""

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Begin the bar at the step a resumed run begins at."""
        if trainer.is_global_zero:
            self.bar.start()
            self._task = self.bar.add_task("training", total=trainer.max_steps, completed=trainer.global_step, told="")

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
        told: dict[str, Any] = {}
        if trainer.global_step % EVERY == 0:
            speed = f"{self.throughput.examples_per_second:.0f} examples/s"
            told = {"told": f"loss {float(outputs['loss']):.3f}  {speed}  {self._judged}"}
        self.bar.update(self._task, completed=trainer.global_step, total=trainer.max_steps, **told)

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Tell what the validation found."""
        logged = trainer.callback_metrics
        names = [name for name in logged if name.startswith("valid_") and name != "valid_perplexity"]
        if len(names) > MOST:
            names = ["valid_loss", self.monitor]
        self._judged = "  ".join(f"{name} {float(logged[name]):.4g}" for name in names)
        if trainer.is_global_zero and not self.console.is_terminal:
            speed = f"{self.throughput.examples_per_second:.0f} examples/s"
            line = f"step {trainer.global_step}/{trainer.max_steps}  {self._judged}  {speed}"
            self.console.print(line, soft_wrap=True)

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """End the bar."""
        self.bar.stop()

    def on_exception(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException
    ) -> None:
        """End the bar."""
        self.bar.stop()
