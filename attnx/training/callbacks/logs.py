"""Log losses, speed, gradient norms and validation metrics."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor, nn

from attnx.loggers.collection import Loggers
from attnx.training.callbacks.step_losses import StepLosses
from attnx.training.callbacks.throughput import Throughput

# Names under which the gradient norms of a model's children are logged; a child that is missing keeps its name.
CHILD_NAMES = {
    "source_encoder": "encoder",
    "source_embedding": "encoder",
    "query": "attention",
    "state_projection": "attention",
    "bridge": "decoder",
    "readout": "output",
}


class LoggerCallback(Callback):
    """Logs every few optimizer steps and at validations, in the main process.

    There are ``interval`` optimizer steps between two rows. A loss is the mean over them; gradient norms are the last
    step's.
    """

    def __init__(self, loggers: Loggers, throughput: Throughput, interval: int) -> None:
        self.loggers, self.throughput, self.interval = loggers, throughput, interval
        self._losses = StepLosses()
        self._norms: dict[str, Tensor] = {}

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Measure the gradients before they are clipped, if this step gets a row."""
        if trainer.is_global_zero and (trainer.global_step + 1) % self.interval == 0:
            assert isinstance(pl_module.model, nn.Module)
            self._norms = gradient_norms(pl_module.model)

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *_: Any) -> None:
        """Keep the loss of a step; log the row that is due."""
        if not trainer.is_global_zero or trainer.fit_loop._should_accumulate():
            return
        self._losses.add(pl_module.step_loss)
        if trainer.global_step % self.interval == 0:
            self.loggers.log(trainer.global_step, self._row(trainer))

    def on_validation_end(self, trainer: Trainer, *_: Any) -> None:
        """Log the metrics of a validation, and what was measured since the last row."""
        if trainer.is_global_zero:
            metrics = trainer.callback_metrics
            valid = {name: float(value) for name, value in metrics.items() if name.startswith("valid_")}
            self.loggers.log(trainer.global_step, {**self._row(trainer), **valid})

    def _row(self, trainer: Trainer) -> dict[str, float]:
        """The row of the steps since the last one; empty without any."""
        loss = self._losses.take_mean()
        if loss is None:
            return {}
        values = {"train_loss": loss, **{f"gradient_norm/{part}": norm for part, norm in self._norms.items()}}
        numbers = torch.stack([value.to(loss.device) for value in values.values()]).tolist()  # one wait for a GPU
        self._norms = {}
        return {
            **dict(zip(values, numbers, strict=True)),
            "train_learning_rate": trainer.optimizers[0].param_groups[0]["lr"],
            "train_epoch": float(trainer.current_epoch),
            "train_examples_per_second": self.throughput.examples_per_second,
            "train_tokens_per_second": self.throughput.tokens_per_second,
        }

    def state_dict(self) -> dict[str, Any]:
        """State for a resumed run."""
        return {"losses": self._losses.state()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state."""
        self._losses.restore(state_dict["losses"])


def gradient_norms(model: nn.Module) -> dict[str, Tensor]:
    """The Euclidean norm of the gradients of each child, and of all; a shared weight counts for the first child.

    >>> model = nn.ModuleDict({"bridge": nn.Linear(2, 1, bias=False), "output": nn.Linear(2, 1, bias=False)})
    >>> model["bridge"].weight.grad, model["output"].weight.grad = torch.tensor([[3.0, 0]]), torch.tensor([[0, 4.0]])
    >>> {part: float(norm) for part, norm in gradient_norms(model).items()}
    {'decoder': 3.0, 'output': 4.0, 'all': 5.0}
    """
    gradients = defaultdict(list)
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            child = name.partition(".")[0]
            gradients[CHILD_NAMES.get(child, child)].append(weight.grad)
    norms = {part: nn.utils.get_total_norm(grads).float() for part, grads in gradients.items()}
    all_gradients = list(chain.from_iterable(gradients.values()))
    return {**norms, "all": nn.utils.get_total_norm(all_gradients).float()} if norms else {}
