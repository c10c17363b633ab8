"""Profile training steps: the time of data loading, of each child of the model, of the loss and of the optimizer."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning import Callback, LightningModule, Trainer
from rich.console import Console
from rich.table import Column, Table
from torch import nn
from torch._C._autograd import DeviceType
from torch.profiler import profile, record_function

from attnx.files.atomic_files import write_json
from attnx.training.callbacks.wrap_methods import Wrapper, wrap_methods

WARMUP_STEPS, PROFILED_STEPS = 5, 20
# Methods of the model's children that are labeled.
METHODS = ("forward", "run", "step", "make_memory")
LABEL, LOSS, BETWEEN = "attnx: ", "loss and other", "between operators"
# Labels of torch's own. Lightning computes the loss within the optimizer's step, so the innermost label counts.
TORCH_LABELS = {"Optimizer.": "optimizer", "enumerate(DataLoader)": "data"}
BACKWARD = "autograd::engine::evaluate_function"


class PartTime(NamedTuple):
    """Milliseconds a training step that a part takes, forward and backward."""

    part: str
    forward: float
    backward: float


class Profile(Callback):
    """Profiles some training steps with torch's profiler, and prints and saves a table by part.

    An operator belongs to the child of the model that called it, and so does its backward pass. The remaining time,
    ``between operators``, is that of Python, the trainer's loop and logging. On a GPU an operator's time is that of its
    kernels, and the remaining time that in which the GPU waits.
    """

    def __init__(self, path: Path, console: Console) -> None:
        self.path, self.console = path, console
        self._steps = 0
        self._profiler: profile | None = None
        self._labels = ExitStack()

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Start after a warm-up: the first steps pay for memory and compilation."""
        if self._steps == WARMUP_STEPS and not self.path.is_file():  # a resumed run may have it
            self._labels.enter_context(wrap_methods(part_labels(pl_module)))
            self._profiler = profile()
            self._profiler.start()
            self._start = time.perf_counter()

    def on_train_batch_end(self, *_: Any) -> None:
        """Finish after the profiled steps."""
        self._steps += 1
        if self._steps == WARMUP_STEPS + PROFILED_STEPS:
            self._finish()

    def on_validation_start(self, *_: Any) -> None:
        """Finish before a validation, which is no training step."""
        self._finish()

    def on_train_end(self, *_: Any) -> None:
        """Finish, or report that the run was too short."""
        self._finish()
        if not self.path.is_file():
            self.console.print(f"profile: no step profiled: {self._steps} were taken, and {WARMUP_STEPS} are warm-up")

    def _finish(self) -> None:
        if self._profiler is None:
            return
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
        seconds, steps = time.perf_counter() - self._start, self._steps - WARMUP_STEPS
        self._profiler.stop()
        self._labels.close()
        times = times_by_part(self._profiler.events(), 1000 * seconds / steps, steps)  # type: ignore[no-untyped-call]
        self._profiler = None
        parts = [part_time._asdict() for part_time in times]
        write_json(self.path, {"steps": steps, "parts": parts})
        self.console.print(table(times, steps))


def part_labels(module: Any) -> dict[tuple[nn.Module, str], Wrapper]:
    """Wrappers that label the training step, and each call of a child of the model, in the profiler."""
    labels: dict[tuple[nn.Module, str], str] = {(module, "training_step"): LOSS}
    for name, child in module.model.named_children():
        for key in itertools.product(child.modules(), METHODS):
            if hasattr(*key):
                labels.setdefault(key, name)  # what two children share belongs to the first
    return {key: record_function(LABEL + name) for key, name in labels.items()}


def times_by_part(events: Sequence[Any], milliseconds: float, steps: int) -> list[PartTime]:
    """Sum the self times of the events of some steps by part, the longest first; a step takes ``milliseconds``."""
    forward, backward = Counter[str](), Counter[str]()
    operators = [event for event in events if event.device_type == DeviceType.CPU]
    # A GPU's kernels count for the operators that launched them.
    time_of = attrgetter("self_cpu_time_total" if len(operators) == len(events) else "self_device_time_total")
    numbered = [(event, _backward_number(event)) for event in operators]
    # An operator and its backward pass have the same sequence number.
    parts = {event.sequence_nr: _part(event) for event, number in numbered if number is None and event.sequence_nr >= 0}
    for event, number in numbered:
        part, totals = (_part(event), forward) if number is None else (parts.get(number), backward)
        totals[part or LOSS] += time_of(event) / 1000 / steps
    between = max(milliseconds - forward.total() - backward.total(), 0.0)
    times = [PartTime(part, forward[part], backward[part]) for part in {**forward, **backward}]
    return sorted([*times, PartTime(BETWEEN, between, 0.0)], key=lambda time: -time.forward - time.backward)


def _enclosing(event: Any) -> Iterator[Any]:
    """An event, and those around it, the innermost first."""
    while event is not None:
        yield event
        event = event.cpu_parent


def _part(event: Any) -> str | None:
    """The part of an event, by the innermost label around it."""
    for name in (enclosing.name for enclosing in _enclosing(event)):
        if name.startswith(LABEL):
            return str(name.removeprefix(LABEL))
        if part := next((part for prefix, part in TORCH_LABELS.items() if name.startswith(prefix)), None):
            return part
    return None


def _backward_number(event: Any) -> int | None:
    """The sequence number of the operator whose backward pass an event belongs to; None in a forward pass."""
    return next((around.sequence_nr for around in _enclosing(event) if around.name.startswith(BACKWARD)), None)


def table(times: list[PartTime], steps: int) -> Table:
    """The times as a table, in milliseconds and percent of a step."""
    total = sum(forward + backward for _, forward, backward in times)
    title = f"where a training step's {total:.1f} ms go (mean of {steps})"
    columns = [Column(name, justify="right") for name in ("forward ms", "backward ms", "% of step")]
    result = Table("part", *columns, title=title, title_justify="left")
    for part, forward, backward in times:
        share = 100 * (forward + backward) / total
        result.add_row(part, f"{forward:.2f}", f"{backward:.2f}", f"{share:.1f}")
    return result
