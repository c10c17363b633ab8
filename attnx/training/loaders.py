"""The loaders of a run: bucketed batches to train on, words in order to judge on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lightning
from torch.utils.data import DataLoader, Subset

from attnx.data.batches import PairDataset, Row, collate
from attnx.data.buckets import BucketBatches
from attnx.errors import UserError
from attnx.tasks.protocols import SequenceData

Loader = DataLoader[Row]


class Loaders(lightning.LightningDataModule):
    """Loaders over a task's data that a resumed run takes up at the batch where it was left.

    Args:
        data: pairs and vocabularies.
        trainer: the trainer's knobs: ``batch_size`` or ``batch_tokens``, ``pool``, ``temperature``, ``workers``,
            ``valid_words``, ``test_words``.
        seed: of the order of the batches.

    Raises:
        UserError: a temperature for data without tags.
    """

    def __init__(self, data: SequenceData, trainer: Mapping[str, Any], seed: int) -> None:
        super().__init__()
        self.data, self.workers = data, trainer["workers"]
        tokens, temperature = trainer.get("batch_tokens"), trainer.get("temperature", 1.0)
        if temperature > 1 and not data.tags:
            raise UserError(f"trainer.temperature={temperature:g} draws rows by their tags, and these data have none")
        self.train_rows = data.train_rows()
        size = None if tokens else trainer["batch_size"]
        pool = trainer.get("pool", 50)
        self.batches = BucketBatches(self.train_rows, size, tokens, seed=seed, pool=pool, temperature=temperature)
        self.valid_rows = data.judged_rows(data.pairs.valid[: trainer["valid_words"]])
        self.test_rows = data.judged_rows(data.pairs.test[: trainer["test_words"]])
        self.judged_at_once = 4 * trainer["batch_size"]

    def train_dataloader(self) -> Loader:
        """Bucketed batches, in an order that only seed and epoch decide."""
        return DataLoader(
            self.train_rows,
            batch_sampler=self.batches,
            collate_fn=collate,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
        )

    def val_dataloader(self) -> Loader:
        """The validation words."""
        return self._judged(self.valid_rows)

    def test_dataloader(self) -> Loader:
        """The test words."""
        return self._judged(self.test_rows)

    def _judged(self, rows: PairDataset | Subset[Row]) -> Loader:
        assert isinstance(rows, PairDataset)
        batches = BucketBatches(rows, self.judged_at_once, shuffle=False)
        return DataLoader(rows, batch_sampler=batches, collate_fn=collate)

    def state_dict(self) -> dict[str, Any]:
        """Where in the data the run stands."""
        assert self.trainer is not None
        progress = self.trainer.fit_loop.epoch_loop.batch_progress.current
        # Not those completed: a run that stops at a batch's end has learned from it already.
        return {"epoch": self.trainer.current_epoch, "batches": progress.processed}  # type: ignore[attr-defined]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Skip what a resumed run has already seen of its epoch."""
        done = state_dict["batches"] % len(self.batches)
        self.batches.resume(state_dict["epoch"] + (state_dict["batches"] > 0 and done == 0), done)
