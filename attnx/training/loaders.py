"""Loaders of a run: bucketed batches for training, a sample of examples for validation and test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import lightning
from torch.utils.data import DataLoader

from attnx.data.batches import collate
from attnx.data.buckets import BucketBatches, ShardedBatchSampler, ShardedDataset, collate_shard
from attnx.data.dataset import PairDataset, Row
from attnx.data.sample import sample_examples
from attnx.errors import UserError
from attnx.metrics.per_tag import MACRO
from attnx.tasks.contract import SequenceData
from attnx.training.distributed.devices import training_device
from attnx.training.distributed.process_group import rank_info

Loader = DataLoader[Row]

EVALUATION_FACTOR = 4
"""How much larger batches are that need no gradients."""


class TrainingDataModule(lightning.LightningDataModule):
    """Loaders over a task's data; a resumed run continues at the batch where it stopped.

    A batch holds the rows of one optimizer step, dealt to ranks and accumulation steps: ``batches`` are those of all
    ranks, ``batch_sampler`` has this rank's share. So 2 ranks, or 2 accumulation steps, with batches of b rows learn
    the same as one with batches of 2b. The seed and the epoch decide on their order. All validation and test pairs are
    used.

    No processes read for it: rows are in memory, or mapped into it.
    """

    def __init__(self, data: SequenceData, trainer: Mapping[str, Any], seed: int) -> None:
        super().__init__()
        self.data = data
        self.train_rows = data.train_dataset()
        info, accumulation_steps = rank_info(), trainer["accumulate_grad_batches"]
        self.tokens = trainer["batch_tokens"]
        self.size = None if self.tokens else trainer["batch_size"]
        self.batches = self._batches(
            self.train_rows,
            accumulation_steps * info.world_size,
            seed=seed,
            pool=trainer["bucket_pool_batches"],
        )
        self.batch_sampler = ShardedBatchSampler(self.batches, info.rank, info.world_size, accumulation_steps)
        self.valid_rows = data.evaluation_dataset(data.pairs.valid)
        self.test_rows = data.evaluation_dataset(data.pairs.test)
        # Pinned memory, from which a GPU copies asynchronously.
        self.has_pinned_memory = training_device(trainer).type == "cuda"

    @property
    def fingerprints(self) -> dict[str, str]:
        """A hash of the training, the validation and the test split, by its name in run.json."""
        return {
            "fingerprint": self.train_rows.fingerprint(),
            "valid_fingerprint": self.valid_rows.fingerprint(),
            "test_fingerprint": self.test_rows.fingerprint(),
        }

    def train_dataloader(self) -> Loader:
        """Bucketed batches, in an order that depends on seed and epoch alone."""
        return self._loader(self.train_rows, self.batch_sampler)

    def val_dataloader(self) -> Loader:
        """The validation examples."""
        return self._evaluation_loader(self.valid_rows)

    def test_dataloader(self) -> Loader:
        """The test examples."""
        return self._evaluation_loader(self.test_rows)

    def _batches(self, rows: PairDataset, factor: int, **options: Any) -> BucketBatches:
        """Batches of ``factor`` times the trainer's size, in rows or in tokens."""
        size = None if self.size is None else min(self.size * factor, max(len(rows), 1))
        return BucketBatches(rows, size, self.tokens and self.tokens * factor, **options)

    def _evaluation_loader(self, rows: PairDataset) -> Loader:
        batches = self._batches(rows, EVALUATION_FACTOR * rank_info().world_size, shuffle=False)
        return self._loader(rows, ShardedBatchSampler(batches, rank_info().rank, rank_info().world_size))

    def _loader(self, rows: PairDataset, sampler: ShardedBatchSampler) -> Loader:
        is_unsharded = sampler.world_size * sampler.accumulation_steps == 1  # so there are no dummy rows
        dataset, collate_rows = (rows, collate) if is_unsharded else (ShardedDataset(rows), collate_shard)
        return DataLoader(
            dataset,
            batch_sampler=sampler,
            collate_fn=collate_rows,
            pin_memory=self.has_pinned_memory,
        )

    def state_dict(self) -> dict[str, Any]:
        """The epoch, and the batches of it that are done."""
        assert self.trainer is not None
        progress = self.trainer.fit_loop.epoch_loop.batch_progress.current
        # Not `completed`, which lags by one: a run that stops at a batch's end has already learned from it.
        return {"epoch": self.trainer.current_epoch, "batches": progress.processed}  # type: ignore[attr-defined]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Skip the batches of the epoch that are done."""
        epochs, done = divmod(state_dict["batches"], len(self.batch_sampler))  # 1, 0 at the end of an epoch
        self.batch_sampler.resume(state_dict["epoch"] + epochs, done)


def draw_examples(data: SequenceData, trainer: Mapping[str, Any], monitor: str) -> SequenceData:
    """Draw the samples for validation and test: ``valid_examples`` and ``test_examples``.

    Raises:
        UserError: the monitor is a mean over tags, and a tag has no validation example.
    """
    count, parts = trainer["valid_examples"], data.pairs
    valid = sample_examples(parts.valid, count)
    if monitor.endswith(f"_{MACRO}"):
        mean = f"{monitor}, which selects the best weights, is the mean over {len(data.tags)} tags"
        if missing := sorted(set(data.tags) - {pair.tag for pair in parts.valid}):
            advice = "name a task.valid that has some, or hold out more examples"
            raise UserError(f"the validation split has no example of {missing[0]!r}, and {mean}; {advice}")
        if len({pair.tag for pair in valid}) < len(data.tags):
            raise UserError(f"trainer.valid_examples={count}: {mean}; set {len(data.tags)} or more, or null for all")
    test = sample_examples(parts.test, trainer["test_examples"])
    return replace(data, pairs=parts._replace(valid=valid, test=test))
