"""Keeps what a run can be tested with and gone on from, and stops it at a moment worth keeping."""

from __future__ import annotations

import bisect
import filecmp
import math
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import lightning
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.trainer.states import TrainerFn

from attnx.files.atomic_files import PARTIAL, whole_file
from attnx.runs.layout import BEST, LAST
from attnx.training.callbacks.stop_signal import StopSignal


class SaveInterval(NamedTuple):
    """How often to save between validations: optimizer steps, minutes, or whichever comes first; None for never."""

    steps: int | None = None
    minutes: float | None = None


class CheckpointManager(Checkpoint):
    """Save ``last.ckpt`` at every validation, at intervals and when a run is stopped; the best are names of it.

    ``best.ckpt`` is best by a metric; of the ``count`` best the others are ``best-2.ckpt`` and so on, by rank. All that
    a resumed run must know is in ``last.ckpt``, which is written first and takes the place of the old one at once. So a
    run that is killed at any moment goes on from one that is whole, and brings the others in order if they are not.

    Nothing is saved but between two steps, when weights and counters agree and no gradients are being gathered: what
    goes on from there computes what an undisturbed run does. Lightning's own callback saves also what an exception
    left, writes its last file only beside a new best one, and notes absolute paths, so a moved folder cannot go on.

    Args:
        folder: where the checkpoints lie.
        monitor: the metric that says which weights are best.
        maximize: whether it is to be large rather than small.
        count: how many of the best stay.
        interval: between validations.
        stopping: says whether the run is to stop.
    """

    def __init__(
        self,
        folder: Path,
        monitor: str,
        maximize: bool = False,
        count: int = 1,
        interval: SaveInterval = SaveInterval(),  # noqa: B008  # it cannot be changed
        stopping: StopSignal | None = None,
    ) -> None:
        self.ranked = [folder / (BEST if rank == 1 else f"best-{rank}.ckpt") for rank in range(1, count + 1)]
        self.best, self.last, self.monitor = self.ranked[0], folder / LAST, monitor
        self.sign = -1 if maximize else 1
        self.lowest = [math.inf] * count
        self.judged, self.rank = -1, count
        self.interval, self.stopping = interval, stopping or StopSignal()
        self.saved, self._whole, self._next = -1, False, math.inf

    def on_fit_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Do what a run that was killed left undone, and take away what it left half written."""
        if not trainer.is_global_zero:
            return
        for left in [*self.last.parent.glob(f"*{PARTIAL}"), self.last.with_name("new.ckpt")]:
            left.unlink(missing_ok=True)
        if self.judged == self.saved and self.last.is_file():
            self._arrange()

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """From now on there is something to keep."""
        self._wait()
        self.stopping.patient = True
        self.stopping.listen()  # Lightning has begun to

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """From now on nothing changes, and who asks to stop does not wait."""
        self.stopping.patient = False
        if any_process(trainer, bool(self.stopping.asked)):
            raise KeyboardInterrupt

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Until the step is done, nothing is to be saved."""
        self._whole = False

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Save if it is time to, and stop if asked to, unless gradients are being gathered or a validation is due."""
        due = (trainer.fit_loop.total_batch_idx + 1) % (trainer.val_check_batch or 1) == 0  # as FollowPlan says
        if due or trainer.fit_loop._should_accumulate():
            return
        stop = any_process(trainer, bool(self.stopping.asked))
        if stop or any_process(trainer, self._is_time(trainer.global_step)):
            self._save(trainer)
        if stop:
            raise KeyboardInterrupt
        self._whole = True

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Save, then stop if asked to."""
        self.judged = trainer.global_step
        found = self.sign * float(trainer.callback_metrics[self.monitor])
        # One that equals another, or is no number, comes behind it.
        self.rank = bisect.bisect_right(self.lowest, found)
        self.lowest = [*self.lowest[: self.rank], found, *self.lowest[self.rank :]][: len(self.ranked)]
        self._save(trainer)
        if trainer.is_global_zero:
            self._arrange()
        if trainer.state.fn == TrainerFn.FITTING and any_process(trainer, bool(self.stopping.asked)):
            raise KeyboardInterrupt

    def on_exception(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException
    ) -> None:
        """Save what was learned, if what went wrong did so between two steps, as where batches are loaded."""
        if self._whole and trainer.world_size == 1 and self.saved != trainer.global_step:
            with suppress(Exception):  # what went wrong first is what is to be told
                self._save(trainer)

    def _is_time(self, step: int) -> bool:
        steps = self.interval.steps
        return bool(steps and step % steps == 0) or time.monotonic() > self._next

    def _wait(self) -> None:
        self._next = time.monotonic() + 60 * (self.interval.minutes or math.inf)

    def _save(self, trainer: lightning.Trainer) -> None:
        self.saved, self._whole = trainer.global_step, False  # what stops this is not to begin it again
        trainer.save_checkpoint(self.last)
        self._wait()

    def _arrange(self) -> None:
        """Give the last checkpoint, just validated, its rank among the best; right also if that was cut off before."""
        places = self.ranked[self.rank :]
        if not places or (places[0].is_file() and filecmp.cmp(places[0], self.last, shallow=False)):
            return
        free = next((number for number, place in enumerate(places) if not place.is_file()), len(places) - 1)
        for number in range(free, 0, -1):
            places[number - 1].replace(places[number])
        with whole_file(places[0]) as partial:
            try:
                os.link(self.last, partial)
            except OSError:  # not every file system can
                shutil.copyfile(self.last, partial)

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run must know."""
        return {"lowest": self.lowest, "judged": self.judged, "rank": self.rank, "saved": self.saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        lowest = state_dict["lowest"]
        known = lowest if isinstance(lowest, list) else [lowest]  # a number, before several were kept
        self.lowest = [*known, *self.lowest][: len(self.ranked)]
        self.judged = state_dict["judged"]
        self.rank, self.saved = state_dict.get("rank", len(self.ranked)), state_dict.get("saved", -1)


def any_process(trainer: lightning.Trainer, mine: bool) -> bool:
    """Whether any of several processes says so: all of them must do the same after the same step."""
    return trainer.strategy.reduce_boolean_decision(mine, all=False) if trainer.world_size > 1 else mine
