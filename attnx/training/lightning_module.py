"""The one LightningModule: it trains a model on a task and knows neither's kind."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import lightning
import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from attnx import accel
from attnx.data.batches import Batch
from attnx.data.examples import Pair
from attnx.data.features import Features
from attnx.data.vocabulary import Vocabulary
from attnx.decoding.contracts import Search, StepModel
from attnx.nn.targets.forecast import subtract_last_value
from attnx.tasks.protocols import Loss, SequenceData, SequenceTask, token_loss
from attnx.training.callbacks.step_plan import StepPlan
from attnx.training.distributed import process_group


class Settings(NamedTuple):
    """How to train.

    Attributes:
        optimizer: from parameters to an optimizer.
        lr_schedule: from an optimizer, and a function from a step to progress, to a learning-rate schedule.
        plan: which optimizer steps the run takes.
        sampling: the chance of scheduled sampling reached at the end of a linear rise.
    """

    optimizer: Callable[..., Optimizer]
    lr_schedule: Callable[..., Any]
    plan: StepPlan
    sampling: float


class Prediction(NamedTuple):
    """One decoded example.

    Attributes:
        pair: what it was decoded from.
        output: what was written: a list of symbols, or a matrix (t, f) in the data's own units.
        log_probability: the model's own, EOS included; of a matrix that of going on and ending where it did.
        weights: (t, m), or (h, t, m) with several heads; None without attention.
        own: how many of the m positions, the last ones, are the decoder's own states.
        score: what the search ranked it by.
        others: what the search found beside it, best first.
    """

    pair: Pair
    output: Any
    log_probability: float
    weights: np.ndarray[Any, np.dtype[np.float32]] | None
    own: int = 0
    score: float = math.nan
    others: tuple[Prediction, ...] = ()


class TrainingModule(lightning.LightningModule):
    """Train by the task's loss; validate and test by decoding and the task's metrics.

    Args:
        model: scores targets and steps.
        task: loss settings and metrics.
        data: vocabularies and pairs.
        search: decodes a batch.
        settings: optimizer and schedules.

    Raises:
        UserError: the search cannot search such a model.
    """

    def __init__(
        self,
        model: nn.Module,
        task: SequenceTask,
        data: SequenceData,
        search: Search,
        settings: Settings,
    ) -> None:
        super().__init__()
        search.check(cast("StepModel", model))
        self.model, self.task, self.data, self.search, self.settings = model, task, data, search, settings
        self.valid_metrics = nn.ModuleDict(task.metrics(data.tags))
        self.test_metrics = nn.ModuleDict(task.metrics(data.tags))
        self._predicted: dict[int, Prediction] = {}
        self._gathered: list[Tensor] = []  # how many steps of targets each share of a batch had, so far

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        """The loss per step of the targets: of a batch, or of what all processes have of it in this turn."""
        progress = self.settings.plan.progress(self.global_step)
        loss = token_loss(self.model, batch, self.task.smoothing, self.settings.sampling * progress)
        turns = self.trainer.accumulate_grad_batches
        return loss.mean if self.trainer.world_size * turns == 1 else self._share(loss, turns)

    def _share(self, loss: Loss, turns: int) -> Tensor:
        """As if there were one process, in one turn: a sum over all, by the number of target steps of all.

        How many the later turns have is not known yet, so the gradients are divided by what the first turn has, and
        put right when the last one's are there.
        """
        mine = loss.total + loss.penalty
        total, tokens = process_group.all_reduce_sum(torch.stack([mine.detach().double(), loss.tokens.double()]))
        self._gathered.append(tokens)
        # Gradients are averaged over the processes, and what is returned is divided by the turns.
        share = mine * (self.trainer.world_size * turns / self._gathered[0]).to(mine.dtype)
        # What is logged is the mean of all.
        shown: Tensor = share + (turns * total / tokens.clamp(min=1) - share.detach()).to(mine.dtype)
        return shown

    def on_after_backward(self) -> None:
        """Divide gradients that gathered by the number of target steps of all turns."""
        if self._gathered and not self.trainer.fit_loop._should_accumulate():
            if len(self._gathered) > 1 or self.trainer.accumulate_grad_batches > 1:
                right = self._gathered[0] / torch.stack(self._gathered).sum()
                gradients = [weight.grad for weight in self.parameters() if weight.grad is not None]
                for gradient in gradients:
                    gradient.mul_(right.to(gradient.device, gradient.dtype))
            self._gathered = []

    def on_validation_epoch_start(self) -> None:
        """Start the sums of the validation loss."""
        self._start_sums()

    def on_test_epoch_start(self) -> None:
        """Start the sums of the test loss."""
        self._start_sums()

    def _start_sums(self) -> None:
        self._total = torch.zeros((), device=self.device, dtype=torch.float64)
        self._tokens = torch.zeros((), device=self.device, dtype=torch.float64)

    def _add_loss(self, batch: Batch) -> None:
        loss = token_loss(self.model, batch)
        self._total += loss.total
        self._tokens += loss.tokens

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        """Add a batch to the validation's loss and metrics; without any metrics nothing need be decoded."""
        self._add_loss(batch)
        if self.valid_metrics:
            self._judge(self.data.pairs.valid, batch, self.valid_metrics)

    def on_validation_epoch_end(self) -> None:
        """Log what was measured."""
        self._log_loss("valid")
        self._log_metrics("valid", self.valid_metrics)

    def _log_loss(self, stage: str) -> None:
        """The loss per step over all targets, whatever the batches were; of symbols also what it means."""
        total, tokens = process_group.all_reduce_sum(torch.stack([self._total, self._tokens]))
        self.log_dict(losses(stage, total / tokens, self.data.target))

    def test_step(self, batch: Batch, batch_index: int) -> None:
        """Decode a batch and keep its predictions; where there are no metrics, the loss is what is measured."""
        if not self.test_metrics:
            self._add_loss(batch)
        found = self._judge(self.data.pairs.test, batch, self.test_metrics)
        self._predicted.update(zip(_counting(batch), found, strict=True))

    def on_test_epoch_end(self) -> None:
        """Log the test's metrics; the first of several processes gets what all have predicted."""
        if not self.test_metrics:
            self._log_loss("test")
        self._log_metrics("test", self.test_metrics)
        if process_group.rank_info().world_size > 1:
            parts = process_group.gather_on_main({row: _paired(one, None) for row, one in self._predicted.items()})
            pairs = self.data.pairs.test
            self._predicted = {row: _paired(one, pairs[row]) for part in parts for row, one in part.items()}

    def _log_metrics(self, stage: str, metrics: nn.ModuleDict) -> None:
        self.log_dict(computed(stage, metrics))
        for metric in metrics.values():
            metric.reset()  # type: ignore[operator]

    def _judge(self, pairs: Sequence[Pair], batch: Batch, metrics: nn.ModuleDict) -> list[Prediction]:
        rows = _counting(batch)
        predictions = self.decode([pairs[row] for row in rows], batch) if rows else []
        self.task.update(metrics, [one.output for one in predictions], [one.pair for one in predictions])
        return predictions

    def decode(self, pairs: Sequence[Pair], batch: Batch, need_weights: bool = False, **asked: Any) -> list[Prediction]:
        """Decode a batch made of ``pairs``; what else is ``asked``, a prefix or choices, goes to the search."""
        model = cast("StepModel", self.model)
        if getattr(self.task, "continues", False):  # what would be a source is how the target begins
            asked = {"prefix": batch.source, **asked}
        source, last = subtract_last_value(model.target, batch.source)
        found = self.search(accel.fused_decoder(model), source, batch.present, batch.tag, need_weights, **asked)
        if last is not None:
            found = found._replace(written=found.written + last[:, None])
        first = batch.source.shape[1] if "encoder" in model.sources else 0
        rows = zip(pairs, *map(_rows, found), strict=False)
        return [_prediction(pair, zip(*row, strict=False), self.data.target, first) for pair, *row in rows]

    @property
    def predictions(self) -> list[Prediction]:
        """What the test predicted, in the order of the data, whatever the batches were."""
        return [self._predicted[row] for row in sorted(self._predicted)]

    def configure_optimizers(self) -> Any:
        """The optimizer and its schedule, stepped at every optimizer step."""
        optimizer = self.settings.optimizer(self.model.parameters())
        schedule = self.settings.lr_schedule(optimizer, self.settings.plan.progress)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def _counting(batch: Batch) -> list[int]:
    """The numbers of its rows; none where its one row is there so that a process does not stand still."""
    rows: list[int] = batch.index.tolist()
    return rows if rows[0] >= 0 else []


def _paired(prediction: Prediction, pair: Any) -> Prediction:
    """A prediction, and what was found beside it, with another pair: what is sent need not hold the data."""
    return prediction._replace(pair=pair, others=tuple(_paired(one, pair) for one in prediction.others))


def _rows(part: Tensor | None) -> Iterable[Any]:
    """What a search found, row by row; of what it did not look for, None for every hypothesis."""
    if part is None:
        return itertools.repeat(itertools.repeat(None))
    # Numbers and symbols as Python's own, which are faster to look at one by one.
    one_by_one = part.dim() == 2 or not part.is_floating_point()
    return cast("Iterable[Any]", part.tolist() if one_by_one else part.float().cpu().numpy())


def _prediction(
    pair: Pair, hypotheses: Iterable[tuple[Any, ...]], target: Vocabulary | Features, first: int
) -> Prediction:
    """The best of a row's hypotheses, with the others in it; those of no steps are not there.

    Args:
        pair: what they were decoded from.
        hypotheses: what is written, how many steps, log-probability, score and weights of each.
        target: says what is written.
        first: as for :func:`_with_weights`.
    """
    best, *others = (
        _with_weights(Prediction(pair, target.decode(written[:steps]), told, None, 0, score), weights, steps, first)
        for written, steps, told, score, weights in hypotheses
        if steps
    )
    return best._replace(others=tuple(others)) if others else best


def losses(stage: str, mean: Tensor, target: Vocabulary | Features) -> dict[str, Tensor]:
    """A loss per step under its names: of symbols also its exponential, the perplexity."""
    perplexity = {f"{stage}_perplexity": mean.exp()} if isinstance(target, Vocabulary) else {}
    return {f"{stage}_loss": mean, **perplexity}


def computed(stage: str, metrics: nn.ModuleDict) -> dict[str, Any]:
    """What a task's metrics have found, flat: ``test_per``, and by tag ``test_per_fra``."""
    values: dict[str, Any] = {}
    for name, metric in metrics.items():
        found = metric.compute()  # type: ignore[operator]
        entries = found if isinstance(found, Mapping) else {"": found}
        values |= {f"{stage}_{name}{entry and '_' + entry}": value for entry, value in entries.items()}
    return values


def _with_weights(prediction: Prediction, weights: Any, steps: int, first: int) -> Prediction:
    """Cut the padding off a row's weights: behind its output, its source, and the states it took.

    Args:
        prediction: what the weights led to.
        weights: (t, m) or (h, t, m), padded; or None.
        steps: how many were taken.
        first: the first column of the decoder's own states; those before it are the source's.
    """
    if weights is None:
        return prediction
    read = len(prediction.pair.source) if first else 0
    own = min(steps, weights.shape[-1] - first)
    columns = [*range(read), *range(first, first + own)]
    return prediction._replace(weights=weights[..., :steps, :][..., columns], own=own)
