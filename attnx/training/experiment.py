"""The one LightningModule: it trains a model on a task and knows neither's kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import lightning
import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from attnx.data.batches import Batch
from attnx.data.pairs import Pair
from attnx.decoding.step_model import Decoded
from attnx.tasks.sequences import SequenceData, SequenceTask, token_loss


class Settings(NamedTuple):
    """How to train.

    Attributes:
        optimiser: from parameters to an optimiser.
        lr_schedule: from an optimiser and the total steps to a learning-rate schedule.
        total_steps: how many optimiser steps the whole run takes.
        sampling: the chance of scheduled sampling reached at the end of a linear rise.
    """

    optimiser: Callable[..., Optimizer]
    lr_schedule: Callable[..., Any]
    total_steps: int
    sampling: float


class Prediction(NamedTuple):
    """One decoded example, in symbols; ``weights`` is (t, s), or None without attention."""

    pair: Pair
    output: list[str]
    log_probability: float
    weights: np.ndarray[Any, np.dtype[np.float32]] | None


class Experiment(lightning.LightningModule):
    """Train by the task's loss; validate and test by decoding and the task's metrics.

    Args:
        model: scores targets and steps.
        task: loss settings and metrics.
        data: vocabularies and pairs.
        search: decodes a batch.
        settings: optimiser and schedules.
    """

    def __init__(
        self,
        model: nn.Module,
        task: SequenceTask,
        data: SequenceData,
        search: Callable[..., Decoded],
        settings: Settings,
    ) -> None:
        super().__init__()
        self.model, self.task, self.data, self.search, self.settings = model, task, data, search, settings
        self.valid_metrics = nn.ModuleDict(task.metrics())
        self.test_metrics = nn.ModuleDict(task.metrics())
        self.predictions: list[Prediction] = []

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        """One batch's loss per token."""
        progress = self.global_step / max(self.settings.total_steps, 1)
        loss = token_loss(self.model, batch, self.task.smoothing, self.settings.sampling * progress)
        return loss.mean

    def on_validation_epoch_start(self) -> None:
        """Start the sums of the validation loss."""
        self._total = torch.zeros((), device=self.device, dtype=torch.float64)
        self._tokens = torch.zeros((), device=self.device, dtype=torch.float64)

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        """Add a batch to the validation's loss and metrics."""
        loss = token_loss(self.model, batch)
        self._total += loss.total
        self._tokens += loss.tokens
        self._judge(self.data.pairs.valid, batch, self.valid_metrics)

    def on_validation_epoch_end(self) -> None:
        """Log what was measured; the loss is per token over all words, whatever the batches were."""
        gathered = self.all_gather(torch.stack([self._total, self._tokens]))
        assert isinstance(gathered, Tensor)
        total, tokens = gathered.view(-1, 2).sum(0)
        self.log_dict({"valid_loss": total / tokens, "valid_perplexity": (total / tokens).exp()})
        self._log_metrics("valid", self.valid_metrics)

    def test_step(self, batch: Batch, batch_index: int) -> None:
        """Decode a batch and keep its predictions."""
        self.predictions += self._judge(self.data.pairs.test, batch, self.test_metrics)

    def on_test_epoch_end(self) -> None:
        """Log the test's metrics."""
        self._log_metrics("test", self.test_metrics)

    def _log_metrics(self, stage: str, metrics: nn.ModuleDict) -> None:
        for name, metric in metrics.items():
            self.log(f"{stage}_{name}", metric.compute())  # type: ignore[operator]
            metric.reset()  # type: ignore[operator]

    def _judge(self, pairs: Sequence[Pair], batch: Batch, metrics: nn.ModuleDict) -> list[Prediction]:
        predictions = self.decode([pairs[row] for row in batch.index.tolist()], batch)
        for metric in metrics.values():
            metric.update([one.output for one in predictions], [one.pair.references for one in predictions])  # type: ignore[operator]
        return predictions

    def decode(self, pairs: Sequence[Pair], batch: Batch, need_weights: bool = False) -> list[Prediction]:
        """Decode a batch made of ``pairs``."""
        found = self.search(self.model, batch.source, batch.present, need_weights)
        outputs = [self.data.target.decode(row) for row in found.symbols.tolist()]
        weights: list[Any] = [None] * len(pairs)
        if found.weights is not None:
            weights = [
                rows[: len(output) + 1, : len(pair.source)]
                for rows, output, pair in zip(found.weights.float().cpu().numpy(), outputs, pairs, strict=True)
            ]
        scores = found.log_probability.tolist()
        return [Prediction(*one) for one in zip(pairs, outputs, scores, weights, strict=True)]

    def configure_optimizers(self) -> Any:
        """The optimiser and its schedule, stepped at every optimiser step."""
        optimiser = self.settings.optimiser(self.model.parameters())
        schedule = self.settings.lr_schedule(optimiser, self.settings.total_steps)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
