"""The loaders of a run: bucketed batches to train on, a sample of examples to judge on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import lightning
from torch.utils.data import DataLoader

from attnx.data.batches import collate
from attnx.data.buckets import BucketBatches
from attnx.data.dataset import PairDataset, Row
from attnx.data.distributed_batches import ShardedBatchSampler, ShardedDataset, collate_shard
from attnx.data.sample import sample_examples
from attnx.errors import UserError
from attnx.metrics.per_tag import MACRO
from attnx.tasks.protocols import SequenceData
from attnx.training.data_workers import SharedBatches, begin_worker, refuse_full_memory
from attnx.training.distributed.process_group import rank_info

Loader = DataLoader[Row]


class Loaders(lightning.LightningDataModule):
    """Loaders over a task's data that a resumed run takes up at the batch where it was left.

    A batch is what an optimizer step learns from: where several processes train one model, or gradients gather over
    several turns, each process gets a share of it in each turn. So 2 processes, or 2 turns, with batches of b rows
    learn from what one learns with batches of 2b.

    Args:
        data: pairs and vocabularies; it is validated and tested on all of theirs.
        trainer: the trainer's knobs: ``batch_size`` or ``batch_tokens``, ``accumulate``, ``pool``, ``temperature``,
            ``workers``.
        seed: of the order of the batches.

    Attributes:
        batches: all that is learned from, batch by batch.
        shares: what this process gets of it.

    Raises:
        UserError: a temperature for data without tags; or workers, and no shared memory for them.
    """

    def __init__(self, data: SequenceData, trainer: Mapping[str, Any], seed: int) -> None:
        super().__init__()
        self.data, self.workers = data, trainer["num_workers"]
        refuse_full_memory(self.workers)
        tokens, temperature = trainer.get("batch_tokens"), trainer.get("tag_sampling_temperature", 1.0)
        if temperature > 1 and not data.tags:
            raise UserError(
                f"trainer.tag_sampling_temperature={temperature:g} draws rows by their tags, and these data have none"
            )
        self.train_rows = data.train_dataset()
        turns, world = trainer["accumulate_grad_batches"], rank_info().world_size
        size = None if tokens else trainer["batch_size"] * turns * world
        tokens = tokens and tokens * turns * world
        pool = trainer.get("bucket_pool_batches", 50)
        self.batches = BucketBatches(self.train_rows, size, tokens, seed=seed, pool=pool, temperature=temperature)
        self.shares = ShardedBatchSampler(self.batches, rank_info().rank, world, turns)
        self.valid_rows = data.evaluation_dataset(data.pairs.valid)
        self.test_rows = data.evaluation_dataset(data.pairs.test)
        self.judged_at_once = 4 * trainer["batch_size"]

    def train_dataloader(self) -> Loader:
        """Bucketed batches, in an order that only seed and epoch decide."""
        return _loader(self.train_rows, self.shares, self.workers)

    def val_dataloader(self) -> Loader:
        """The validation examples."""
        return self._judged(self.valid_rows)

    def test_dataloader(self) -> Loader:
        """The test examples."""
        return self._judged(self.test_rows)

    def _judged(self, rows: PairDataset) -> Loader:
        batches = BucketBatches(rows, self.judged_at_once * rank_info().world_size, shuffle=False)
        return _loader(rows, ShardedBatchSampler(batches, rank_info().rank, rank_info().world_size))

    def state_dict(self) -> dict[str, Any]:
        """Where in the data the run stands."""
        assert self.trainer is not None
        progress = self.trainer.fit_loop.epoch_loop.batch_progress.current
        # Not those completed: a run that stops at a batch's end has learned from it already.
        return {"epoch": self.trainer.current_epoch, "batches": progress.processed}  # type: ignore[attr-defined]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Skip what a resumed run has already seen of its epoch."""
        done = state_dict["batches"] % len(self.shares)
        self.shares.resume(state_dict["epoch"] + (state_dict["batches"] > 0 and done == 0), done)


def draw_examples(data: SequenceData, trainer: Mapping[str, Any], monitor: str) -> SequenceData:
    """Draw the examples that a run is validated and tested on: ``valid_examples`` and ``test_examples``.

    Raises:
        UserError: the monitor is a mean over tags, and of some tag there is no validation example.
    """
    count, parts = trainer["valid_examples"], data.pairs
    valid = sample_examples(parts.valid, count)
    if monitor.endswith(f"_{MACRO}"):
        _refuse_missing_tags(data, count, len({pair.tag for pair in valid}), monitor)
    test = sample_examples(parts.test, trainer["test_examples"])
    return replace(data, pairs=parts._replace(valid=valid, test=test))


def _refuse_missing_tags(data: SequenceData, count: int | None, drawn: int, monitor: str) -> None:
    """Refuse a validation without some tag where a mean over all tags says which weights are best."""
    mean = f"{monitor}, which says which weights are best, is the mean over {len(data.tags)} tags"
    if missing := sorted(set(data.tags) - {pair.tag for pair in data.pairs.valid}):
        mend = "name a task.valid that holds some, or hold more out"
        raise UserError(f"the valid part holds no example of {missing[0]!r}, and {mean}; {mend}")
    if drawn < len(data.tags):
        raise UserError(f"trainer.valid_examples={count}: {mean}; set {len(data.tags)} or more, or null for all")


def _loader(rows: PairDataset, shares: ShardedBatchSampler, workers: int = 0) -> Loader:
    is_whole = shares.world_size * shares.accumulation_steps == 1  # no row is there that counts for nothing
    dataset, make = (rows, collate) if is_whole else (ShardedDataset(rows), collate_shard)
    if not workers:
        return DataLoader(dataset, batch_sampler=shares, collate_fn=make)
    knobs: dict[str, Any] = {"num_workers": workers, "persistent_workers": True, "worker_init_fn": begin_worker}
    return DataLoader(dataset, batch_sampler=shares, collate_fn=SharedBatches(make), **knobs)
