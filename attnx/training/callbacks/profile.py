"""Profile training steps: the time of data loading, of each child of the model, of the loss and of the optimizer."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.profiler import record_function

WARMUP_STEPS, PROFILED_STEPS = 5, 20
LABEL = "attnx: "
# Methods of the model's children that are labeled.
METHODS = ("forward", "run", "step", "make_memory")
LOSS = "loss and other"
# Labels of torch's own. Lightning computes the loss within the optimizer's step, so the innermost label counts.
TORCH_LABELS = {"Optimizer.": "optimizer", "enumerate(DataLoader)": "data"}
BACKWARD = "autograd::engine::evaluate_function"
BETWEEN = "between operators"


class PartTime(NamedTuple):
    """Milliseconds a training step that a part takes, forward and backward."""

    part: str
    forward: float
    backward: float

    @property
    def total(self) -> float:
        """Forward and backward."""
        return self.forward + self.backward


class Profile(Callback):
    """Profiles some training steps with torch's profiler, and prints and saves a table by part.

    An operator belongs to the child of the model that called it, and so does its backward pass. The remaining time,
    ``between operators``, is that of Python, the trainer's loop and logging.

    Args:
        path: of the table as JSON.
        console: where the table is printed.
    """

    def __init__(self, path: Path, console: Console) -> None:
        self.path, self.console = path, console
        self._steps = 0
        self._profiler: torch.profiler.profile | None = None

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Start after a warm-up: the first steps pay for memory and compilation."""
        if self._steps == WARMUP_STEPS and self._profiler is None:
            self._labels = label_parts(pl_module)
            self._labels.__enter__()
            self._profiler = torch.profiler.profile()
            self._profiler.start()
            self._started = time.perf_counter()

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Finish after the profiled steps."""
        self._steps += 1
        if self._steps == WARMUP_STEPS + PROFILED_STEPS:
            self._finish()

    def on_validation_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Finish before a validation, which is no training step."""
        self._finish()

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Finish, or report that the run was too short."""
        self._finish()
        if self._steps <= WARMUP_STEPS:
            self.console.print(f"profile: no step profiled: the run had {self._steps}, and {WARMUP_STEPS} are warm-up")

    def _finish(self) -> None:
        if self._profiler is None:
            return
        seconds, steps = time.perf_counter() - self._started, self._steps - WARMUP_STEPS
        self._profiler.stop()
        self._labels.__exit__(None, None, None)
        times = times_by_part(list(self._profiler.events()), 1000 * seconds / steps, steps)  # type: ignore[no-untyped-call]
        self._profiler = None
        parts = [part_time._asdict() for part_time in times]
        self.path.write_text(json.dumps({"steps": steps, "parts": parts}, indent=2) + "\n")
        self.console.print(table(times, steps))


@contextmanager
def label_parts(module: lightning.LightningModule) -> Iterator[None]:
    """Label the training step, and each call of a child of the model, in the profiler."""
    labels: dict[tuple[nn.Module, str], str] = {(module, "training_step"): LOSS}
    for name, child in module.model.named_children():  # type: ignore[union-attr]
        for key in itertools.product(child.modules(), METHODS):
            if hasattr(*key):
                labels.setdefault(key, name)  # what two children share belongs to the first
    for (owner, method), name in labels.items():
        setattr(owner, method, partial(_call_labeled, getattr(owner, method), LABEL + name))
    try:
        yield
    finally:
        for owner, method in labels:
            delattr(owner, method)


def _call_labeled(method: Callable[..., Any], label: str, /, *args: Any, **kwargs: Any) -> Any:
    with record_function(label):
        return method(*args, **kwargs)


def times_by_part(events: list[Any], milliseconds: float, steps: int) -> list[PartTime]:
    """Sum the events' self times by part; the longest part first.

    Args:
        events: of the profiler.
        milliseconds: of a step, in all.
        steps: that were profiled.
    """
    forward, backward = Counter[str](), Counter[str]()
    sequence_numbers = {event.id: _backward_sequence_number(event) for event in events}
    # An operator and its backward pass have the same sequence number.
    part_of_operator = {
        event.sequence_nr: _part(event)
        for event in events
        if sequence_numbers[event.id] is None and event.sequence_nr >= 0
    }
    for event in events:
        sequence_number = sequence_numbers[event.id]
        part = _part(event) if sequence_number is None else part_of_operator.get(sequence_number)
        totals = forward if sequence_number is None else backward
        totals[part or LOSS] += event.self_cpu_time_total / 1000 / steps
    between = max(milliseconds - forward.total() - backward.total(), 0.0)
    times = [PartTime(part, forward[part], backward[part]) for part in {**forward, **backward}]
    return sorted([*times, PartTime(BETWEEN, between, 0.0)], key=lambda part_time: -part_time.total)


def _part(event: Any) -> str | None:
    """The part of an event, by the innermost label around it."""
    while event is not None:
        if event.name.startswith(LABEL):
            return str(event.name.removeprefix(LABEL))
        if part := next((part for prefix, part in TORCH_LABELS.items() if event.name.startswith(prefix)), None):
            return part
        event = event.cpu_parent
    return None


def _backward_sequence_number(event: Any) -> int | None:
    """The sequence number of the operator whose backward pass an event belongs to; None in a forward pass."""
    while event is not None:
        if event.name.startswith(BACKWARD):
            return int(event.sequence_nr)
        event = event.cpu_parent
    return None


def table(times: list[PartTime], steps: int) -> Table:
    """The times as a table, in milliseconds and percent of a step."""
    total = sum(part_time.total for part_time in times)
    result = Table("part", title=f"where a training step's {total:.1f} ms go (mean of {steps})", title_justify="left")
    for column in ("forward ms", "backward ms", "% of step"):
        result.add_column(column, justify="right")
    for part, forward, backward in times:
        share = 100 * (forward + backward) / total
        result.add_row(part, f"{forward:.2f}", f"{backward:.2f}", f"{share:.1f}")
    return result
