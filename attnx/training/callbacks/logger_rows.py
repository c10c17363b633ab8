"""Give loggers the losses, speed, gradient norms and metrics of training, and pictures of attention."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from lightning.fabric.utilities import move_data_to_device
from torch import Tensor, nn

from attnx.data.batches import collate
from attnx.data.evenly_spaced import evenly_by_length
from attnx.loggers.contract import Loggers, one_line
from attnx.reports.figures.heatmaps import MAX_PANELS_ON_PAGE, draw_alignments_page, save_figure
from attnx.runs.layout import ALIGNMENTS_PICTURE
from attnx.training.callbacks.metrics_csv import StepLosses
from attnx.training.callbacks.throughput import Throughput
from attnx.training.loaders import TrainingDataModule

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


class HeatMaps(Callback):
    """Decodes the same validation examples at each validation, evenly from short to long, and shows their weights."""

    def __init__(self, loggers: Loggers, loaders: TrainingDataModule) -> None:
        pairs = loaders.data.pairs.valid
        indices = evenly_by_length([pair.source for pair in pairs], MAX_PANELS_ON_PAGE)
        self.pairs, self.rows = [pairs[index] for index in indices], [loaders.valid_rows[index] for index in indices]
        self.loggers = loggers

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Decode and draw."""
        was_training = pl_module.training
        precision = trainer.precision_plugin
        batch = move_data_to_device(precision.convert_input(collate(self.rows)), pl_module.device)
        with torch.no_grad(), precision.val_step_context():
            decoded = pl_module.eval().predictor.decode_batch(self.pairs, batch, need_weights=True)
        pl_module.train(was_training)
        alignments = [shown for prediction in decoded if (shown := prediction.scored_alignment(pl_module.task))]
        if not alignments:
            return
        try:
            with TemporaryDirectory() as folder:
                figure = draw_alignments_page(alignments)
                picture = save_figure(figure, Path(folder) / ALIGNMENTS_PICTURE)
                self.loggers.show(trainer.global_step, {"valid/alignments": picture})
        except OSError as error:  # such as a full disk: what is for loggers never stops a run
            self.loggers.report(f"no picture of attention for the loggers: {one_line(error)}")
