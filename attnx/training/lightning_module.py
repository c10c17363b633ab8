"""The LightningModule: trains any model on any task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import lightning
import torch
from lightning.fabric.plugins.precision import DoublePrecision, MixedPrecision, Precision
from lightning.fabric.utilities import move_data_to_device
from torch import Tensor, nn
from torch.optim import Optimizer

from attnx.data.batches import Batch
from attnx.data.examples import Pair
from attnx.inference.predictor import Prediction, Predictor, loss_results, metric_results
from attnx.tasks.loss import token_loss
from attnx.training.callbacks.step_plan import StepPlan
from attnx.training.distributed import process_group


class TrainingModule(lightning.LightningModule):
    """Trains by the task's loss; validates and tests by decoding and the task's metrics.

    Args:
        predictor: the model, with its task, data and decoding.
        build_optimizer: from ``parameters``.
        build_lr_schedule: from an ``optimizer``, and a function from a step to ``progress``.
        scheduled_sampling: the final probability of scheduled sampling, reached linearly.
    """

    step_plan: StepPlan  #: the optimizer steps of the run, set before it is trained
    batch: Batch | None = None  #: the last one that was moved to the device, for messages
    #: of the last batch and this rank alone, where several learn together, for messages
    local_loss: Tensor | None = None
    step_loss: Tensor  #: () the loss per target step of the last optimizer step, over all ranks and accumulation steps

    def __init__(
        self,
        predictor: Predictor,
        build_optimizer: Callable[..., Optimizer],
        build_lr_schedule: Callable[..., Any],
        scheduled_sampling: float,
    ) -> None:
        super().__init__()
        self.predictor, self.scheduled_sampling = predictor, scheduled_sampling
        self.build_optimizer, self.build_lr_schedule = build_optimizer, build_lr_schedule
        self.model, self.task, self.data = predictor.model, predictor.task, predictor.data
        self.valid_metrics = nn.ModuleDict(self.task.metrics(self.data.tags))
        self.test_metrics = nn.ModuleDict(self.task.metrics(self.data.tags))
        self._predictions: dict[int, Prediction] = {}
        self._step_sums: list[Tensor] = []  # (2,), the loss and the target steps of each accumulation step so far

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        """Remember the batch."""
        self.batch = batch
        return batch

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        """The loss per target step of a batch; over all ranks and accumulation steps."""
        progress = self.step_plan.progress(self.global_step)
        loss = token_loss(self.model, batch, self.task.label_smoothing, self.scheduled_sampling * progress)
        num_shares = self.trainer.world_size * self.trainer.accumulate_grad_batches
        if num_shares == 1:
            mean = loss.mean
            self.step_loss = mean.detach()
            return mean
        # The token count of later accumulation steps is unknown, so the loss is normalized by the first step's count,
        # and gradients are rescaled in `on_after_backward`.
        local = loss.total + loss.penalty
        self.local_loss = local.detach()
        sums = process_group.all_reduce_sum(torch.stack([local.detach().double(), loss.tokens.double()]))
        self._step_sums.append(sums)
        total, tokens = torch.stack(self._step_sums).sum(0)
        self.step_loss = total / tokens
        # Lightning averages gradients over ranks, and divides the loss by the accumulation steps.
        share = local * (num_shares / self._step_sums[0][1]).to(local.dtype)
        # The value is the mean over all ranks: if it is not finite, all of them see it.
        value: Tensor = share + (self.step_loss - share.detach()).to(local.dtype)
        return value

    def on_after_backward(self) -> None:
        """Rescale accumulated gradients by the number of target steps of all accumulation steps."""
        if self._step_sums and not self.trainer.fit_loop._should_accumulate():
            if len(self._step_sums) > 1:
                scale = self._step_sums[0][1] / torch.stack(self._step_sums)[:, 1].sum()
                for gradient in (weight.grad for weight in self.parameters() if weight.grad is not None):
                    gradient.mul_(scale.to(gradient.device, gradient.dtype))
            self._step_sums = []

    def on_validation_epoch_start(self) -> None:
        """Reset the sums of the loss and of target steps."""
        self._sums = torch.zeros(2, device=self.device, dtype=torch.float64)

    on_test_epoch_start = on_validation_epoch_start

    def _add_loss(self, batch: Batch) -> None:
        loss = token_loss(self.model, batch)
        self._sums += torch.stack([loss.total.double(), loss.tokens.double()])

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        """Add a batch to the validation's loss and metrics; without metrics nothing is decoded."""
        self._add_loss(batch)
        if self.valid_metrics:
            self._update_metrics(self.data.pairs.valid, batch, self.valid_metrics)

    def on_validation_epoch_end(self) -> None:
        """Log the validation's loss and metrics."""
        self._log_loss("valid")
        self._log_metrics("valid", self.valid_metrics)

    def _log_loss(self, stage: str) -> None:
        """Log the loss per target step over all ranks and batches; of symbols also the perplexity."""
        total, tokens = process_group.all_reduce_sum(self._sums)
        self.log_dict(loss_results(stage, total / tokens, self.data.target))

    def test_step(self, batch: Batch, batch_index: int) -> None:
        """Decode a batch and keep its predictions; without metrics the loss is measured."""
        if not self.test_metrics:
            self._add_loss(batch)
        predictions = self._update_metrics(self.data.pairs.test, batch, self.test_metrics)
        self._predictions.update(zip(_row_indices(batch), predictions, strict=True))

    def on_test_epoch_end(self) -> None:
        """Log the test's metrics; the main process collects the predictions of all ranks."""
        if not self.test_metrics:
            self._log_loss("test")
        self._log_metrics("test", self.test_metrics)
        if process_group.rank_info().world_size > 1:
            local = {row: prediction.with_pair(None) for row, prediction in self._predictions.items()}
            pairs, ranks = self.data.pairs.test, process_group.gather_on_main(local)
            self._predictions = {row: item.with_pair(pairs[row]) for part in ranks for row, item in part.items()}

    def _log_metrics(self, stage: str, metrics: nn.ModuleDict) -> None:
        self.log_dict(metric_results(stage, metrics))
        for metric in metrics.values():
            metric.reset()  # type: ignore[operator]

    def _update_metrics(self, pairs: Sequence[Pair], batch: Batch, metrics: nn.ModuleDict) -> list[Prediction]:
        rows = _row_indices(batch)
        predictions = self.predictor.decode_batch([pairs[row] for row in rows], batch) if rows else []
        self.task.update(metrics, [item.output for item in predictions], [item.pair for item in predictions])
        return predictions

    @property
    def predictions(self) -> list[Prediction]:
        """The predictions of the test, in the order of the data."""
        return [self._predictions[row] for row in sorted(self._predictions)]

    def configure_optimizers(self) -> Any:
        """The optimizer and its schedule, stepped at every optimizer step."""
        optimizer = self.build_optimizer(parameters=self.model.parameters())
        schedule = self.build_lr_schedule(optimizer=optimizer, progress=self.step_plan.progress)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the norm of all gradients.

        Lightning refuses it for a fused optimizer with mixed precision, which may unscale gradients in its step. On a
        CPU, where optimizers are fused, gradients are not scaled.
        """
        if self.device.type != "cpu":
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)
        elif gradient_clip_val is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), gradient_clip_val)


def _row_indices(batch: Batch) -> list[int]:
    """The data indices of the rows; none for the dummy row of an empty shard."""
    rows: list[int] = batch.row_index.tolist()
    return rows if rows[0] >= 0 else []


def precision_plugin(name: object, device: torch.device) -> Precision:
    """Lightning's plug-in of a ``trainer.precision``."""
    if name in ("bf16-mixed", "16-mixed"):
        return MixedPrecision(name, device.type)
    return DoublePrecision() if name == 64 else Precision()


def keep_random_state(device: torch.device) -> AbstractContextManager[None]:
    """Restore the random state of the CPU, and of a GPU that is used, afterwards; other GPUs are not looked at."""
    return torch.random.fork_rng([device] if device.type == "cuda" else [])


def compute_gradients(
    model: nn.Module, module: TrainingModule, batch: Batch, precision: Precision, device: torch.device
) -> None:
    """Add the gradients of a batch's mean loss to a model, with the loss of ``module``."""
    batch = precision.convert_input(move_data_to_device(batch, device))
    with precision.forward_context():
        loss = token_loss(model, batch, module.task.label_smoothing, module.scheduled_sampling)
    precision.backward((loss.total + loss.penalty) / loss.tokens.clamp(min=1), None)
