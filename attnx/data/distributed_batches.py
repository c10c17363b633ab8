"""Batches cut into shares: for the processes that train one model, and for the turns in which gradients gather."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import torch
from torch.utils.data import Dataset, Sampler

from attnx.data.batches import Batch, PairDataset, Row, collate
from attnx.data.buckets import BucketBatches
from attnx.data.special_tokens import PAD


class ShardedBatchSampler(Sampler[list[int]]):
    """What one process gets of each batch, ``turns`` shares one after another; a loader's ``batch_sampler``.

    Every row of a batch is in exactly one share of one process, and all processes get as many shares. So two of them
    learn from the rows that one would learn from. Every so manieth row is a share's: a batch is sorted by length, and
    shares of like lengths take as long. A share that none is left for has one row that counts for nothing, written
    ``~row``: a process that stood still would keep the others waiting.

    Args:
        batches: what is cut.
        rank: the number of the process.
        world: how many there are.
        turns: shares of a batch that each gets.

    >>> from attnx.data.batches import Ragged
    >>> side = Ragged.of([[4]] * 7)
    >>> batches = BucketBatches(PairDataset(side, side), size=5, shuffle=False)
    >>> [list(ShardedBatchSampler(batches, rank, world=2, turns=2)) for rank in (0, 1)]
    [[[0, 4], [2], [5], [-6]], [[1], [3], [6], [-6]]]
    """

    def __init__(self, batches: BucketBatches, rank: int = 0, world: int = 1, turns: int = 1) -> None:
        self.batches, self.rank, self.world, self.turns = batches, rank, world, turns
        self._taken = (0, 0)  # an epoch, and how many shares of the batch it begins with were taken

    @property
    def sampler(self) -> BucketBatches:
        """What Lightning calls ``set_epoch`` on."""
        return self.batches

    def resume(self, epoch: int, start: int) -> None:
        """Turn to ``epoch`` and skip its first ``start`` shares, until ``set_epoch`` names another epoch."""
        self.batches.resume(epoch, start // self.turns)
        self._taken = (epoch, start % self.turns)

    def __len__(self) -> int:
        """Return the number of shares of a whole epoch."""
        return self.turns * len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        """Return the shares of this epoch; a later ``set_epoch`` does not disturb them."""
        epoch, taken = self._taken
        shares = (share for batch in self.batches for share in self._cut(batch))
        return itertools.islice(shares, taken if epoch == self.batches.epoch else 0, None)

    def _cut(self, batch: list[int]) -> Iterator[list[int]]:
        for turn in range(self.turns):
            yield batch[turn * self.world + self.rank :: self.turns * self.world] or [~batch[0]]


class ShardedDataset(Dataset[Row]):
    """The rows of a dataset by their numbers, and by inverted ones those that count for nothing."""

    def __init__(self, rows: PairDataset) -> None:
        self.rows = rows

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        """Return one row, numbered as it was asked for."""
        return self.rows[max(index, ~index)]._replace(number=index)


def collate_share(rows: Sequence[Row]) -> Batch:
    """Pad rows; those that count for nothing have no target."""
    batch = collate(rows)
    if rows[0].number >= 0:
        return batch
    return batch._replace(
        target=torch.full_like(batch.target, PAD), target_present=torch.zeros_like(batch.target_present)
    )
