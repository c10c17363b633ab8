"""Rows of training losses every few steps, and a row per validation: in ``metrics.csv``, and for loggers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor, nn

from attnx.files.atomic_files import fsync, write_text
from attnx.loggers.contract import Loggers
from attnx.runs.results import STEP, VALID, with_row
from attnx.training.callbacks.step_plan import is_validation_due
from attnx.training.callbacks.throughput import Throughput

# So many rows of training losses are evenly spaced; then their distance doubles whenever the steps have doubled.
EVENLY_SPACED_ROWS = 1000
# Names under which the gradient norms of a model's children are logged; a child that is missing keeps its name.
CHILD_NAMES = {
    "source_encoder": "encoder",
    "source_embedding": "encoder",
    "query": "attention",
    "state_projection": "attention",
    "bridge": "decoder",
    "readout": "output",
}


class MetricRows(Callback):
    """Adds rows to a CSV file, atomically, and gives them to loggers; a loss is the mean since the row before.

    ``interval`` is the number of optimizer steps between rows of training losses. A validation has a row of its own,
    with its step's training loss. A row also has what other callbacks have logged until then, by ``pl_module.log``; it
    does not wait for them, since one may raise. Loggers also get the gradient norms of a row's step. A resumed run
    continues after the rows that its checkpoint counts; rows that a killed run wrote after its last checkpoint are
    written again.
    """

    def __init__(self, path: Path, throughput: Throughput, interval: int, loggers: Loggers | None = None) -> None:
        self.path, self.throughput, self.interval, self.loggers = path, throughput, interval, loggers
        self.row_count = 0
        # Since the last row. They stay where they were computed: to read one waits for a GPU.
        self._losses: list[Tensor] = []
        self._norms: dict[str, Tensor] = {}
        self._logged: dict[str, float] = {}  # by callbacks, in the step that the next row is of
        self._epoch = 0  # of the last batch; at the end of training the trainer's is one higher
        self._learning_rate = 0.0  # of the last step; the optimizer has that of the next one

    def on_fit_start(self, trainer: Trainer, *_: Any) -> None:
        """Delete the rows that were written after the checkpoint."""
        if not trainer.is_global_zero:
            return
        lines = self._read().split("\r\n")
        if not self.row_count:
            self.path.unlink(missing_ok=True)
        elif len(lines) > self.row_count + 2:  # the header, the rows, and nothing after the last end
            write_text(self.path, "\r\n".join([*lines[: self.row_count + 1], ""]))

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Keep the learning rate; measure the gradients before they are clipped, if loggers get a row of this step."""
        self._learning_rate = trainer.optimizers[0].param_groups[0]["lr"]
        if self.loggers and self._is_due(trainer.global_step + 1):
            assert isinstance(pl_module.model, nn.Module)
            self._norms = gradient_norms(pl_module.model)

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *_: Any) -> None:
        """Keep the loss of a step, and what was logged in one that has a row; add the row that is due."""
        if trainer.fit_loop._should_accumulate():
            return
        is_due, is_validated = self._is_due(trainer.global_step), is_validation_due(trainer)
        if is_due or is_validated:
            # On each rank, since reading may reduce a value over all of them. Values of the last validation stay there.
            logged = trainer.callback_metrics.items()
            self._logged = {name: float(value) for name, value in logged if not name.startswith(VALID)}
        if not trainer.is_global_zero:
            return
        self._losses.append(pl_module.step_loss)
        self._epoch = trainer.current_epoch
        if is_due and not is_validated:
            self._add_row(trainer, {})

    def on_validation_end(self, trainer: Trainer, *_: Any) -> None:
        """Add the row of a validation."""
        if trainer.is_global_zero:
            logged = trainer.callback_metrics.items()
            self._add_row(trainer, {name: float(value) for name, value in logged if name.startswith(VALID)})

    def on_save_checkpoint(self, trainer: Trainer, *_: Any) -> None:
        """Flush the rows that the checkpoint counts to the disk."""
        if trainer.is_global_zero and self.row_count:
            fsync(self.path)

    def _is_due(self, step: int) -> bool:
        return step % row_interval(step, self.interval) == 0

    def _add_row(self, trainer: Trainer, metrics: Mapping[str, float]) -> None:
        metrics, values = {**self._logged, **metrics}, dict[str, float]()
        if self._losses:
            loss = self._stacked_losses().mean()
            measured = {"train_loss": loss, **self._norms}
            numbers = torch.stack([value.to(loss.device) for value in measured.values()])
            values = dict(zip(measured, numbers.tolist(), strict=True))  # by one wait for a GPU
        self._losses, self._norms, self._logged = [], {}, {}
        step, learning_rate = trainer.global_step, self._learning_rate
        examples, tokens = self.throughput.examples_per_second, self.throughput.tokens_per_second
        row = {
            STEP: str(step),
            "epoch": str(self._epoch),
            "learning_rate": f"{learning_rate:.6g}",
            "train_loss": f"{values['train_loss']:.6g}" if values else "",
            "examples_per_second": f"{examples:.1f}",
            "tokens_per_second": f"{tokens:.1f}",
        }
        row |= {name: f"{value:.6g}" for name, value in metrics.items() if name not in row}
        write_text(self.path, with_row(self._read(), row))
        self.row_count += 1
        if self.loggers:
            speed = {"train_examples_per_second": examples, "train_tokens_per_second": tokens}
            progress = {"train_learning_rate": learning_rate, "train_epoch": float(self._epoch)}
            self.loggers.log(step, {**metrics, **values, **progress, **speed})

    def _read(self) -> str:
        return self.path.read_bytes().decode() if self.path.is_file() else ""

    def state_dict(self) -> dict[str, Any]:
        """State for a resumed run."""
        losses = self._stacked_losses().cpu() if self._losses else torch.zeros(0)
        progress = {"epoch": self._epoch, "learning_rate": self._learning_rate}
        return {"row_count": self.row_count, "losses": losses, **progress}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state."""
        self.row_count, self._epoch = state_dict["row_count"], state_dict["epoch"]
        self._learning_rate = state_dict["learning_rate"]
        self._losses = list(state_dict["losses"].unbind())

    def _stacked_losses(self) -> Tensor:
        device = self._losses[-1].device  # a checkpoint's losses are on the CPU
        return torch.stack([loss.to(device, torch.float64) for loss in self._losses])


def gradient_norms(model: nn.Module) -> dict[str, Tensor]:
    """The Euclidean norm of the gradients of each child, and of all; a shared weight counts for the first child.

    >>> model = nn.ModuleDict({"bridge": nn.Linear(2, 1, bias=False), "output": nn.Linear(2, 1, bias=False)})
    >>> model["bridge"].weight.grad, model["output"].weight.grad = torch.tensor([[3.0, 0]]), torch.tensor([[0, 4.0]])
    >>> {part: float(norm) for part, norm in gradient_norms(model).items()}
    {'gradient_norm/decoder': 3.0, 'gradient_norm/output': 4.0, 'gradient_norm/all': 5.0}
    """
    gradients = defaultdict(list)
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            child = name.partition(".")[0]
            gradients[CHILD_NAMES.get(child, child)].append(weight.grad)
    parts = {**gradients, "all": [*chain.from_iterable(gradients.values())]} if gradients else {}
    return {f"gradient_norm/{part}": nn.utils.get_total_norm(grads).float() for part, grads in parts.items()}


def row_interval(step: int, interval: int) -> int:
    """Steps between rows of training losses around a step; it follows from the step alone, so resuming changes no row.

    >>> [row_interval(step, 50) for step in (50, 50_000, 50_050, 100_000, 100_050)]
    [50, 50, 100, 100, 200]
    """
    while step > EVENLY_SPACED_ROWS * interval:
        interval *= 2
    return interval
