"""Show a run's progress: a bar in a terminal, lines elsewhere, and a file for its sweep."""

from __future__ import annotations

import contextlib
import math
import os
import time
from pathlib import Path
from typing import Any

from lightning import Callback, Trainer
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

from attnx.files.atomic_files import write_json
from attnx.files.printable import can_redraw
from attnx.runs.layout import PROGRESS_VARIABLE
from attnx.training.callbacks.throughput import Throughput

# Steps between updates of the bar's loss; reading it waits for the device.
LOSS_INTERVAL_STEPS = 10
# Seconds without a line after which one is printed between validations, where there is no bar.
LINE_INTERVAL_SECONDS = 30.0
# Seconds between two writes of the file for the sweep.
WRITE_INTERVAL_SECONDS = 0.5
# With more metrics than this (one a language), only the loss and the monitored one are shown.
MAX_METRICS = 4


class ProgressDisplay(Callback):
    """Shows progress with rich; ``monitor`` is the metric that ranks checkpoints."""

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
            disable=not can_redraw(console),
        )
        self._next_write, self._next_line = 0.0, math.inf
        self._task: TaskID | None = None
        self._metrics = ""

    def on_train_start(self, trainer: Trainer, *_: Any) -> None:
        """Start the bar at the step of a resumed run."""
        if trainer.is_global_zero:
            self._next_line = time.monotonic() + LINE_INTERVAL_SECONDS
            self.bar.start()
            self._task = self.bar.add_task(
                "training", total=trainer.max_steps, completed=trainer.global_step, status=""
            )

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *_: Any) -> None:
        """Move the bar, or print a line if there was none for a while."""
        if self._task is None:
            return
        file = os.environ.get(PROGRESS_VARIABLE)  # of a sweep's job
        if file and time.monotonic() >= self._next_write:
            self._next_write = time.monotonic() + WRITE_INTERVAL_SECONDS
            with contextlib.suppress(OSError):  # which is no reason to stop training
                write_json(Path(file), {"step": trainer.global_step})
        if self.bar.disable:
            if time.monotonic() >= self._next_line:
                self._print_line(trainer, f"train_loss {float(pl_module.step_loss):.4g}")
            return
        fields: dict[str, Any] = {}
        if trainer.global_step % LOSS_INTERVAL_STEPS == 0:
            fields = {"status": f"loss {float(pl_module.step_loss):.3f}  {self._speed()}  {self._metrics}"}
        self.bar.update(self._task, completed=trainer.global_step, total=trainer.max_steps, **fields)

    def on_validation_end(self, trainer: Trainer, *_: Any) -> None:
        """Show the metrics."""
        logged = trainer.callback_metrics
        names = [name for name in logged if name.startswith("valid_") and name != "valid_perplexity"]
        if len(names) > MAX_METRICS:
            names = ["valid_loss", self.monitor]
        self._metrics = "  ".join(f"{name} {float(logged[name]):.4g}" for name in names)
        if trainer.is_global_zero and self.bar.disable:
            self._print_line(trainer, self._metrics)

    def _print_line(self, trainer: Trainer, measured: str) -> None:
        line = f"step {trainer.global_step}/{trainer.max_steps}  {measured}  {self._speed()}"
        self.console.print(line, soft_wrap=True)
        self._next_line = time.monotonic() + LINE_INTERVAL_SECONDS

    def _speed(self) -> str:
        return f"{self.throughput.examples_per_second:.0f} examples/s"

    def on_train_end(self, *_: Any) -> None:
        """End the bar."""
        self.bar.stop()

    on_exception = on_train_end  # type: ignore[assignment]
