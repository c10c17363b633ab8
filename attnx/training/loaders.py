"""The loaders of a run: bucketed batches to train on, words in order to judge on."""

from __future__ import annotations

from typing import Any

import lightning
from torch.utils.data import DataLoader, Subset

from attnx.data.batches import BucketBatches, PairDataset, Row, collate
from attnx.tasks.sequences import SequenceData

Loader = DataLoader[Row]


class Loaders(lightning.LightningDataModule):
    """Loaders over a task's data that a resumed run takes up at the batch where it was left.

    Args:
        data: pairs and vocabularies.
        batch_size: words in a batch.
        judged: how many words to validate and to test on; None for all.
        workers: loader processes; 0 loads in this one.
        seed: of the order of the batches.
    """

    def __init__(
        self, data: SequenceData, batch_size: int, judged: tuple[int | None, int | None], workers: int, seed: int
    ) -> None:
        super().__init__()
        self.data, self.workers = data, workers
        self.train_rows = data.train_rows()
        self.batches = BucketBatches(self.train_rows.lengths(), batch_size, seed=seed)
        self.valid_rows = data.judged_rows(data.pairs.valid[: judged[0]])
        self.test_rows = data.judged_rows(data.pairs.test[: judged[1]])
        self.judged_at_once = 4 * batch_size

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
        batches = BucketBatches(rows.lengths(), self.judged_at_once, shuffle=False)
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
