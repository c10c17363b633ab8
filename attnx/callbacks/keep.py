"""Keeps what a run can be tested with and gone on from, and lets Ctrl-C wait for a moment worth keeping."""

from __future__ import annotations

import bisect
import itertools
import math
import signal
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import lightning
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.trainer.states import TrainerFn

from attnx.errors import UserError


class Keep(Checkpoint):
    """Save ``last.ckpt`` at every validation and when a run is stopped, and ``best.ckpt`` when a metric is best.

    Of the ``count`` best the others are ``best-2.ckpt`` and so on, by rank.

    As a context it takes over Ctrl-C: the first waits until the batch is done, so that the weights are whole and a
    resumed run computes what an uninterrupted one would have; the second stops at once. Lightning's own callback
    writes its last file only beside a new best one, and notes absolute paths, so that a moved folder cannot go on.

    Args:
        folder: where the checkpoints lie.
        monitor: the metric that says which weights are best.
        maximise: whether it is to be large rather than small.
        count: how many of the best stay.
    """

    def __init__(self, folder: Path, monitor: str, maximise: bool = False, count: int = 1) -> None:
        self.ranked = [folder / ("best.ckpt" if rank == 1 else f"best-{rank}.ckpt") for rank in range(1, count + 1)]
        self.best, self.last, self.monitor = self.ranked[0], folder / "last.ckpt", monitor
        self.sign = -1 if maximise else 1
        self.lowest = [math.inf] * count
        self.judged = -1
        self._training = self._asked = False

    def __enter__(self) -> Keep:
        """Take over Ctrl-C; only the main thread may."""
        self._before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Give Ctrl-C back; Lightning has it ignored once it was heard."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: Any) -> None:
        if self._asked or not self._training:
            raise KeyboardInterrupt
        self._asked = True

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """From now on there is something to keep."""
        self._training = True

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """From now on nothing changes."""
        self._training = False

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Stop if asked to, unless gradients are still being gathered or a validation is due first."""
        due = (trainer.fit_loop.total_batch_idx + 1) % int(trainer.val_check_interval) == 0
        if self._asked and not due and not trainer.fit_loop._should_accumulate():
            raise KeyboardInterrupt

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Save, then stop if asked to."""
        self.judged = trainer.global_step
        found = self.sign * float(trainer.callback_metrics[self.monitor])
        # One that equals another, or is no number, comes behind it.
        rank = bisect.bisect_right(self.lowest, found)
        self.lowest = [*self.lowest[:rank], found, *self.lowest[rank:]][: len(self.ranked)]
        if rank < len(self.ranked):
            self._save(trainer, rank)
        trainer.save_checkpoint(self.last)
        if self._asked:
            raise KeyboardInterrupt

    def _save(self, trainer: lightning.Trainer, rank: int) -> None:
        """Save a checkpoint at its rank, and move down those behind it once it is whole."""
        new = self.last.with_name("new.ckpt")
        trainer.save_checkpoint(new)
        for better, worse in reversed([*itertools.pairwise(self.ranked[rank:])]):
            if better.is_file():
                better.replace(worse)
        new.replace(self.ranked[rank])

    def on_exception(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException
    ) -> None:
        """Save what a stopped run has learned; not after a mistake, such as a loss that is no longer a number."""
        if trainer.state.fn == TrainerFn.FITTING and not isinstance(exception, UserError):
            trainer.save_checkpoint(self.last)

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run must know."""
        return {"lowest": self.lowest, "judged": self.judged}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        lowest = state_dict["lowest"]
        known = lowest if isinstance(lowest, list) else [lowest]  # a number, before several were kept
        self.lowest = [*known, *self.lowest][: len(self.ranked)]
        self.judged = state_dict["judged"]
