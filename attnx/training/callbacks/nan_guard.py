"""Stop a run whose loss is NaN or infinite, save the batch, and note at which batch any error arose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback

from attnx.data.batches import Batch
from attnx.data.vocabulary import Vocabulary
from attnx.errors import RunFailed
from attnx.files.atomic_files import atomic_write
from attnx.runs.layout import BAD_BATCH
from attnx.tasks.contract import SequenceData, token_loss
from attnx.training.callbacks.first_not_finite import first_not_finite

# How many row numbers, and how many characters of the first row, a message holds.
MAX_ROWS, MAX_CHARACTERS = 8, 60
# How the note begins that is added to an exception; see :mod:`attnx.training.failure_report`.
STEP_NOTE_PREFIX = "at step"


class NanGuard(Callback):
    """Raises as soon as a training loss is NaN or infinite, before the optimizer spreads it into the weights.

    Args:
        folder: the run folder, where the batch is saved.
        data: of the batches.
    """

    def __init__(self, folder: Path, data: SequenceData) -> None:
        self.folder, self.data = folder, data
        self._batch: Batch | None = None
        self._phase = "before training"

    def on_before_backward(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, loss: Any) -> None:
        """Check the loss."""
        if torch.isfinite(loss) or self._batch is None:
            return
        value, rows = float(loss.detach()), self._batch.row_index.tolist()
        row_list = ", ".join(map(str, rows[:MAX_ROWS])) + (", ..." if len(rows) > MAX_ROWS else "")
        file = self.folder / (BAD_BATCH if trainer.is_global_zero else f"{trainer.global_rank}-{BAD_BATCH}")
        try:
            self._save_batch(self._batch, file, value, trainer)
            saved = f"the batch is in {file}"
        except OSError as error:
            saved = f"the batch could not be saved ({error.strerror})"
        raise RunFailed(
            f"the loss became {value} {STEP_NOTE_PREFIX} {trainer.global_step}, in a batch of {len(rows)} rows "
            f"({row_list}; the first: {self._first_source(self._batch)}){_origin(pl_module, self._batch)}; {saved}; "
            "start a new run with a lower optimizer.lr, or set trainer.gradient_clip_val"
        )

    def _save_batch(self, batch: Batch, file: Path, loss: float, trainer: lightning.Trainer) -> None:
        """Save the batch as plain values, which ``torch.load(file, weights_only=True)`` opens."""
        texts = {
            name: [vocabulary.decode(row.tolist()) for row in ids.cpu()]
            for name, vocabulary, ids in (
                ("source_symbols", self.data.source, batch.source),
                ("target_symbols", self.data.target, batch.target),
            )
            if isinstance(vocabulary, Vocabulary)
        }
        tensors = {name: value.detach().cpu() for name, value in batch._asdict().items() if value is not None}
        position = {"step": trainer.global_step, "epoch": trainer.current_epoch, "batch": trainer.fit_loop.batch_idx}
        with atomic_write(file) as partial, partial.open("wb") as opened:
            torch.save({"loss": loss, **position, "rows": tensors["row_index"].tolist(), **texts, **tensors}, opened)

    def _first_source(self, batch: Batch) -> str:
        """The source of the batch's first row, for a message."""
        if not isinstance(self.data.source, Vocabulary):
            return f"{int(batch.source_mask[0].sum())} steps"
        symbols = " ".join(self.data.source.decode(batch.source[0].tolist()))
        return repr(symbols if len(symbols) <= MAX_CHARACTERS else symbols[:MAX_CHARACTERS] + "...")

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Batch, batch_idx: int
    ) -> None:
        """Remember the batch."""
        self._batch, self._phase = batch, "in training"

    def on_validation_batch_start(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Remember the batch."""
        self._batch, self._phase = batch, "in validation"

    def on_test_batch_start(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Remember the batch."""
        self._batch, self._phase = batch, "in the test"

    def on_exception(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException
    ) -> None:
        """Note at which batch it arose."""
        if self._batch is not None:
            rows, source_length = self._batch.source.shape[:2]
            target_length = self._batch.target.shape[1]
            exception.add_note(
                f"{STEP_NOTE_PREFIX} {trainer.global_step}, {self._phase}, with a batch of {rows} rows of up to "
                f"{source_length} source and {target_length} target positions"
            )


def _origin(module: Any, batch: Batch) -> str:
    """A clause with the part whose output is the first that is not finite, if a second pass shows it."""
    clause = first_not_finite(module.model, lambda: token_loss(module.model, batch))
    return f"; {clause}" if clause else ""
