"""Where a training step's time goes: data, each part of the model, the loss, the optimizer, and what lies between."""

from __future__ import annotations

import itertools
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.profiler import ProfilerActivity, record_function

FIRST, STEPS = 5, 20  # training steps before the profile begins, and in it
LABEL = "attnx: "
# What a model's children are called by.
METHODS = ("forward", "run", "step", "remember")
OTHER = "loss and other"
# What torch itself names. Lightning takes a training step within the optimizer's: then that label is not the innermost.
OTHERS = {"Optimizer.": "optimizer", "enumerate(DataLoader)": "data"}
BETWEEN = "between operators"


class Line(NamedTuple):
    """Milliseconds a training step that one part takes, forward and backward."""

    part: str
    forward: float
    backward: float

    @property
    def total(self) -> float:
        """Both."""
        return self.forward + self.backward


class Profile(Callback):
    """Watch some training steps with torch's profiler and write what they spend their time on.

    An operator belongs to the child of the model that called it, and its gradient's to the same. What is not spent in
    any operator is ``between operators``: Python, the trainer's loop and logging.

    Args:
        path: where the table goes as JSON, ``profile.json`` of the run folder.
        console: where it is printed.
    """

    def __init__(self, path: Path, console: Console) -> None:
        self.path, self.console = path, console
        self._seen = 0
        self._watching: torch.profiler.profile | None = None
        self._labels = ExitStack()

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Begin after some steps: the first ones pay for memory and compilation."""
        if self._seen == FIRST and self._watching is None:
            self._labels.enter_context(labeled(pl_module))
            cuda = [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
            self._watching = torch.profiler.profile(activities=[ProfilerActivity.CPU, *cuda])
            self._watching.start()
            self._began = time.perf_counter()

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End after some more, and tell."""
        self._seen += 1
        if self._watching is not None and self._seen == FIRST + STEPS:
            self._finish()

    def on_validation_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """A validation is no training step."""
        if self._watching is not None:
            self._finish()

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Tell what there is, or that the run was too short."""
        if self._watching is not None:
            self._finish()
        elif self._seen <= FIRST:
            self.console.print(f"profile: the run had {self._seen} steps, and the first {FIRST} are not looked at")

    def _finish(self) -> None:
        assert self._watching is not None
        seconds, steps = time.perf_counter() - self._began, self._seen - FIRST
        self._watching.stop()
        self._labels.close()
        lines = spent(list(self._watching.events()), seconds, steps)  # type: ignore[no-untyped-call]
        self._watching = None
        self.path.write_text(json.dumps({"steps": steps, "parts": [one._asdict() for one in lines]}, indent=2) + "\n")
        self.console.print(table(lines, steps))


@contextmanager
def labeled(experiment: lightning.LightningModule) -> Iterator[None]:
    """Name the training step, and whatever calls a child of its model, for the profiler, for a while."""
    named: dict[tuple[nn.Module, str], str] = {(experiment, "training_step"): OTHER}
    for name, child in experiment.model.named_children():  # type: ignore[union-attr]
        for place in itertools.product(child.modules(), METHODS):
            if hasattr(*place):
                named.setdefault(place, name)  # what two children share belongs to the first
    for (module, method), name in named.items():
        setattr(module, method, _named(getattr(module, method), LABEL + name))
    try:
        yield
    finally:
        for module, method in named:
            delattr(module, method)


def _named(method: Callable[..., Any], label: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with record_function(label):
            return method(*args, **kwargs)

    return call


def spent(events: Any, seconds: float, steps: int) -> list[Line]:
    """Sum the events' own times by part; the longest part first.

    Args:
        events: the profiler's.
        seconds: all the time they were watched.
        steps: in so many training steps.
    """
    forward: dict[str, float] = defaultdict(float)
    backward: dict[str, float] = defaultdict(float)
    numbers = {event.id: _gradient_of(event) for event in events}
    made = [event for event in events if numbers[event.id] is None and event.sequence_nr >= 0]
    of_number = {event.sequence_nr: _part(event) for event in made}
    for event in events:
        number = numbers[event.id]
        part = _part(event) if number is None else of_number.get(number)
        into = forward if number is None else backward
        into[part or OTHER] += event.self_cpu_time_total / 1000 / steps
    rest = seconds * 1000 / steps - sum(forward.values()) - sum(backward.values())
    lines = [Line(part, forward[part], backward[part]) for part in {**forward, **backward}]
    return sorted([*lines, Line(BETWEEN, max(rest, 0.0), 0.0)], key=lambda line: -line.total)


def _part(event: Any) -> str | None:
    """The part that an event belongs to, by the innermost label around it."""
    while event is not None:
        if event.name.startswith(LABEL):
            return str(event.name.removeprefix(LABEL))
        if part := next((part for begin, part in OTHERS.items() if event.name.startswith(begin)), None):
            return part
        event = event.cpu_parent
    return None


def _gradient_of(event: Any) -> int | None:
    """The number of the operator whose gradient an event helps to form; None if it is no part of a backward pass."""
    while event is not None:
        if event.name.startswith("autograd::engine::evaluate_function"):
            return int(event.sequence_nr)
        event = event.cpu_parent
    return None


def table(lines: list[Line], steps: int) -> Table:
    """The lines as a table, in milliseconds and percent of a step."""
    whole = sum(line.total for line in lines)
    drawn = Table("part", title=f"where a training step's {whole:.1f} ms go (mean of {steps})", title_justify="left")
    for column in ("forward ms", "backward ms", "% of step"):
        drawn.add_column(column, justify="right")
    for line in lines:
        share = 100 * line.total / whole
        drawn.add_row(line.part, f"{line.forward:.2f}", f"{line.backward:.2f}", f"{share:.1f}")
    return drawn
