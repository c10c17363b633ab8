"""Save the last and the best checkpoints, stop a run where it can be resumed, and end it when it improves no more."""

from __future__ import annotations

import bisect
import filecmp
import math
import os
import shutil
import time
from pathlib import Path
from typing import Any

import torch
from lightning import LightningModule, Trainer
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.callbacks import Checkpoint, EarlyStopping
from torch import Tensor

from attnx.files.atomic_files import PARTIAL, atomic_write, fsync
from attnx.inference.checkpoint import VALIDATED
from attnx.runs.layout import LAST, ranked_checkpoint
from attnx.training.callbacks.step_plan import is_validation_due
from attnx.training.distributed.process_group import any_rank
from attnx.training.stop_signal import StopSignal

LOSS = "valid_loss"
# What a checkpoint holds of the manager.
STATE_KEYS = ("lowest_values", "rank", "validated_step", "saved_step", "has_stopped")


def validation_key(metric: float, loss: float, maximize: bool) -> tuple[float, float]:
    """The key by which validations are sorted, the best first: by the metric, and equal ones, as a BLEU of 0, by loss.

    Of equal keys the earlier is best. NaN is infinite, so that the first validation is the best, whatever it is.
    """
    numbers = (-metric if maximize else metric), loss
    value, loss = (math.inf if math.isnan(number) else number for number in numbers)
    return value, loss


class CheckpointManager(Checkpoint):
    """Saves ``last.ckpt`` at each validation, at intervals and when a run is stopped; the best are hard links to it.

    ``best.ckpt`` has the best metric, of equal ones the lowest validation loss, ``best-2.ckpt`` the second best, and so
    on. ``last.ckpt`` holds all that a resumed run needs. It is written first, atomically. A run that is killed at any
    moment resumes from a complete checkpoint, and completes the renaming of the others.

    A callback may swap the weights for a validation, as for averages of them. Then a checkpoint has both, and those
    that were validated are tested and loaded.

    Checkpoints are saved between two optimizer steps only, when weights and counters agree and no gradients are being
    accumulated, so a resumed run computes what an undisturbed run does. Lightning's own callback also saves the state
    that an exception left, writes its last file only with a new best one, and stores absolute paths, so that a moved
    folder cannot be resumed.

    Args:
        folder: of the checkpoints.
        monitor, maximize: the metric that ranks checkpoints, and whether higher is better.
        count: how many of the best are kept.
        steps, minutes: how often to save between validations, whichever comes first; None for never.
        stop_signal: whether the run was asked to stop.
    """

    def __init__(
        self,
        folder: Path,
        monitor: str,
        maximize: bool = False,
        count: int = 1,
        steps: int | None = None,
        minutes: float | None = None,
        stop_signal: StopSignal | None = None,
    ) -> None:
        self.ranked = [folder / ranked_checkpoint(rank) for rank in range(1, count + 1)]
        self.best, self.last, self.monitor = self.ranked[0], folder / LAST, monitor
        self.maximize = maximize
        # The metric of each of the best checkpoints, signed so that lower is better, and its validation loss.
        self.lowest_values: list[tuple[float, float]] = []
        self.rank = count  # of the last validated checkpoint, from 0
        self.validated_step = self.saved_step = -1
        # Whether a callback ended the training: a run that is killed after that must not train on when it is resumed.
        self.has_stopped = False
        self.steps, self.minutes, self.stop_signal = steps, minutes, stop_signal or StopSignal()
        self._next_save = math.inf
        self._validated: dict[str, Tensor] = {}

    def on_fit_start(self, trainer: Trainer, *_: Any) -> None:
        """Delete partial files of a run that was killed, and finish its renaming."""
        if not trainer.is_global_zero:
            return
        for partial in self.last.parent.glob(f"*{PARTIAL}"):
            partial.unlink(missing_ok=True)
        if self.validated_step == self.saved_step and self.last.is_file():
            self._rank_last()

    def on_train_start(self, trainer: Trainer, *_: Any) -> None:
        """From now on a stop waits for the end of the step."""
        trainer.should_stop = trainer.should_stop or self.has_stopped
        self._schedule_save()
        self.stop_signal.is_polled = True
        self.stop_signal.listen()  # Lightning has installed its own handlers

    def on_train_end(self, *_: Any) -> None:
        """From now on a stop interrupts at once."""
        self.stop_signal.is_polled = False
        if self._must_stop():
            raise KeyboardInterrupt

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Lightning's handlers of a validation or test after training would wait for the other processes."""
        self.stop_signal.listen()

    on_test_start = on_validation_start

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Keep the weights that are validated until they are saved: Lightning calls this callback last."""
        if batch_idx == 0:
            self._validated = {name: weight.detach().clone() for name, weight in pl_module.state_dict().items()}

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Add the weights that were validated, if a callback has swapped them back."""
        saved = checkpoint["state_dict"]
        if any(not torch.equal(weight, saved[name].to(weight.device)) for name, weight in self._validated.items()):
            checkpoint[VALIDATED] = self._validated

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        """Save if it is time to, and stop if asked to, unless gradients accumulate or a validation follows."""
        if is_validation_due(trainer) or trainer.fit_loop._should_accumulate():
            return
        must_stop, step = self._must_stop(), trainer.global_step
        is_due = bool(self.steps and step % self.steps == 0) or time.monotonic() > self._next_save
        if must_stop or any_rank(is_due):
            self._save(trainer)
        if must_stop:
            raise KeyboardInterrupt

    def on_validation_end(self, trainer: Trainer, *_: Any) -> None:
        """Save and rank the checkpoint, then stop if asked to."""
        self.validated_step, self.has_stopped = trainer.global_step, trainer.should_stop
        metric, loss = (float(trainer.callback_metrics[name]) for name in (self.monitor, LOSS))
        key = validation_key(metric, loss, self.maximize)
        self.rank = bisect.bisect_right(self.lowest_values, key)
        self.lowest_values.insert(self.rank, key)
        del self.lowest_values[len(self.ranked) :]
        self._save(trainer)
        self._validated = {}
        if trainer.is_global_zero:
            self._rank_last()
        if self._must_stop():
            raise KeyboardInterrupt

    def _must_stop(self) -> bool:
        return any_rank(bool(self.stop_signal.signum))

    def _schedule_save(self) -> None:
        self._next_save = time.monotonic() + 60 * (self.minutes or math.inf)

    def _save(self, trainer: Trainer) -> None:
        self.saved_step = trainer.global_step
        trainer.save_checkpoint(self.last)
        self._schedule_save()

    def _rank_last(self) -> None:
        """Link the last checkpoint to its rank; it may be that this was interrupted before."""
        paths = self.ranked[self.rank :]
        if not paths or (paths[0].is_file() and filecmp.cmp(paths[0], self.last, shallow=False)):
            return
        free = next((index for index, path in enumerate(paths) if not path.is_file()), len(paths) - 1)
        for index in range(free, 0, -1):
            paths[index - 1].replace(paths[index])
        with atomic_write(paths[0]) as partial:
            try:
                os.link(self.last, partial)
            except OSError:  # some file systems have no hard links
                shutil.copyfile(self.last, partial)

    def state_dict(self) -> dict[str, Any]:
        """State for a resumed run."""
        return {name: getattr(self, name) for name in STATE_KEYS}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state."""
        for name in STATE_KEYS:  # no others: paths stay in this run's folder, whoever wrote the checkpoint
            setattr(self, name, state_dict[name])


class AtomicCheckpointIO(TorchCheckpointIO):
    """Lightning's checkpoint plug-in with atomic writes: a partial file, fsync, then a rename.

    Lightning's own plug-in writes into the system's temporary folder and copies from there if that is another disk, so
    a process that is killed can leave half a checkpoint. The folder of a user's ``ModelCheckpoint`` is made, but not
    ``folder``, the run's own: where it is missing, the run was deleted.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """Write a checkpoint."""
        path = Path(path)
        if path.parent != self.folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as partial:
            with partial.open("wb") as file:  # given a path, torch does not report why a write failed
                torch.save(checkpoint, file)
            fsync(partial)
        fsync(path.parent)


class ResumableEarlyStopping(EarlyStopping):
    """Lightning's early stopping, for which a lower loss at an equal metric is an improvement.

    A metric may stay at its worst for long, as a BLEU of 0. ``min_improvement`` is the share of the best value by which
    a better one has to differ from it.
    """

    best_loss = math.inf

    def __init__(self, monitor: str, maximize: bool, patience: int, min_improvement: float) -> None:
        # NaN is no better result, and no end by itself.
        super().__init__(monitor, patience=patience, mode="max" if maximize else "min", check_finite=False)
        self.min_improvement = min_improvement if maximize else -min_improvement

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Decide whether to stop."""
        score, loss = trainer.callback_metrics[self.monitor], float(trainer.callback_metrics[LOSS])
        if torch.isfinite(self.best_score):
            self.min_delta = self.min_improvement * abs(float(self.best_score))
        if float(score) == float(self.best_score) and loss < self.best_loss:
            self.wait_count = -1  # Lightning will add one, since the metric is no better
        super().on_validation_end(trainer, pl_module)
        self.best_loss = loss if self.wait_count == 0 else self.best_loss

    def state_dict(self) -> dict[str, Any]:
        """State for a resumed run."""
        return {**super().state_dict(), "best_loss": self.best_loss}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state."""
        super().load_state_dict(state_dict)
        self.best_loss = state_dict["best_loss"]
