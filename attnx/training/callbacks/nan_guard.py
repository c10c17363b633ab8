"""Stops a run whose loss is no longer a number, and keeps the batch; says of any fault where in the data it struck."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback

from attnx.data.batches import Batch
from attnx.data.vocabulary import Vocabulary
from attnx.errors import RunFailed
from attnx.files.atomic_files import whole_file
from attnx.runs.layout import BAD_BATCH
from attnx.tasks.protocols import SequenceData, token_loss
from attnx.training.callbacks.first_not_finite import first_not_finite

# How many of the rows' numbers, and how much of the first row, are said.
ROWS, SYMBOLS = 8, 60
# What a note says that is added to an exception; see :mod:`attnx.training.failure_report`.
AT = "at step"


class NanGuard(Callback):
    """Raise as soon as a training loss is NaN or infinite, before the optimizer spreads it into the weights.

    Args:
        folder: the run's, where such a batch is kept.
        data: whose rows they are.
    """

    def __init__(self, folder: Path, data: SequenceData) -> None:
        self.folder, self.data = folder, data
        self._batch: Batch | None = None
        self._doing = "before training"

    def on_before_backward(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, loss: Any) -> None:
        """Look at the loss."""
        if torch.isfinite(loss) or self._batch is None:
            return
        found, rows = float(loss.detach()), self._batch.index.tolist()
        told = ", ".join(map(str, rows[:ROWS])) + (", ..." if len(rows) > ROWS else "")
        file = self.folder / (BAD_BATCH if trainer.is_global_zero else f"{trainer.global_rank}-{BAD_BATCH}")
        try:
            self._keep(file, found, trainer)
            kept = f"the batch is in {file}"
        except OSError as error:
            kept = f"the batch could not be kept ({error.strerror})"
        raise RunFailed(
            f"the loss became {found} {AT} {trainer.global_step}, in a batch of {len(rows)} rows ({told}; the first: "
            f"{self._first()}){self._origin(pl_module)}; {kept}; start anew with a lower optimizer.lr, or set "
            f"trainer.gradient_clip_val"
        )

    def _origin(self, experiment: Any) -> str:
        """Which part of the model gave the first output that is not finite, as a clause, if a second pass shows it."""
        assert self._batch is not None
        batch = self._batch
        clause = first_not_finite(experiment.model, lambda: token_loss(experiment.model, batch))
        return f"; {clause}" if clause else ""

    def _keep(self, file: Path, loss: float, trainer: lightning.Trainer) -> None:
        """Write the batch, as plain values that ``torch.load(file, weights_only=True)`` opens."""
        assert self._batch is not None
        texts = {
            side: [vocabulary.decode(row.tolist()) for row in ids.cpu()]
            for side, vocabulary, ids in (
                ("source_symbols", self.data.source, self._batch.source),
                ("target_symbols", self.data.target, self._batch.target),
            )
            if isinstance(vocabulary, Vocabulary)
        }
        tensors = {name: value.detach().cpu() for name, value in self._batch._asdict().items() if value is not None}
        place = {"step": trainer.global_step, "epoch": trainer.current_epoch, "batch": trainer.fit_loop.batch_idx}
        with whole_file(file) as partial, partial.open("wb") as opened:
            torch.save({"loss": loss, **place, "rows": tensors["index"].tolist(), **texts, **tensors}, opened)

    def _first(self) -> str:
        assert self._batch is not None
        if not isinstance(self.data.source, Vocabulary):
            return f"{int(self._batch.present[0].sum())} steps"
        symbols = " ".join(self.data.source.decode(self._batch.source[0].tolist()))
        return repr(symbols if len(symbols) <= SYMBOLS else symbols[:SYMBOLS] + "...")

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Batch, batch_idx: int
    ) -> None:
        """Look at what comes."""
        self._batch, self._doing = batch, "in training"

    def on_validation_batch_start(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Look at what comes."""
        self._batch, self._doing = batch, "in validation"

    def on_test_batch_start(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Look at what comes."""
        self._batch, self._doing = batch, "in the test"

    def on_exception(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException
    ) -> None:
        """Note at which batch it was."""
        if self._batch is not None:
            rows, read = self._batch.source.shape[:2]
            written = self._batch.target.shape[1]
            exception.add_note(
                f"{AT} {trainer.global_step}, {self._doing}, with a batch of {rows} rows of up to {read} source and "
                f"{written} target positions"
            )
