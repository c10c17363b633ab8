"""Batches divided into shards: over the processes that train one model, and over gradient accumulation steps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import torch
from torch.utils.data import Dataset, Sampler

from attnx.data.batches import Batch, collate
from attnx.data.buckets import BucketBatches
from attnx.data.dataset import Row, Rows
from attnx.data.special_tokens import PAD


class ShardedBatchSampler(Sampler[list[int]]):
    """One rank's shards of each batch, one per accumulation step; the ``batch_sampler`` of a loader.

    Rows are dealt round-robin over ranks and accumulation steps: a batch is sorted by length, so that shards have
    similar lengths and take equally long. Every row of a batch is in exactly one shard, so that all ranks together
    learn from the rows that one process would. An empty shard gets one dummy row (``~row``, loss 0), so that every
    rank takes part in every step.

    >>> from attnx.data.dataset import PairDataset
    >>> from attnx.data.ragged import Ragged
    >>> side = Ragged.of([[4]] * 7)
    >>> batches = BucketBatches(PairDataset(side, side), size=5, shuffle=False)
    >>> [list(ShardedBatchSampler(batches, rank, world_size=2, accumulation_steps=2)) for rank in (0, 1)]
    [[[0, 4], [2], [5], [-6]], [[1], [3], [6], [-6]]]
    """

    def __init__(self, batches: BucketBatches, rank: int = 0, world_size: int = 1, accumulation_steps: int = 1) -> None:
        self.batches, self.rank = batches, rank
        self.world_size, self.accumulation_steps = world_size, accumulation_steps
        self._resumed = (0, 0)  # an epoch, and how many shards of its first batch to skip

    @property
    def sampler(self) -> BucketBatches:
        """The object on which Lightning calls ``set_epoch``."""
        return self.batches

    def resume(self, epoch: int, start: int) -> None:
        """Set the epoch and skip its first ``start`` shards, until ``set_epoch`` sets another epoch."""
        self.batches.resume(epoch, start // self.accumulation_steps)
        self._resumed = (epoch, start % self.accumulation_steps)

    def __len__(self) -> int:
        """Return the number of shards of a complete epoch."""
        return self.accumulation_steps * len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        """Return the shards of this epoch; a later ``set_epoch`` does not affect them."""
        epoch, skipped = self._resumed
        count = self.accumulation_steps * self.world_size
        starts = range(self.rank, count, self.world_size)
        shards = (batch[start::count] or [~batch[0]] for batch in self.batches for start in starts)
        return itertools.islice(shards, skipped if epoch == self.batches.epoch else 0, None)


class ShardedDataset(Dataset[Row]):
    """The rows of a dataset by index; an inverted index gives a dummy row."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        """Return one row, with ``index`` as its index."""
        return self.rows[max(index, ~index)]._replace(row_index=index)


def collate_shard(rows: Sequence[Row]) -> Batch:
    """Pad rows; dummy rows have no target."""
    batch = collate(rows)
    if rows[0].row_index >= 0:
        return batch
    return batch._replace(target=torch.full_like(batch.target, PAD), target_mask=torch.zeros_like(batch.target_mask))
