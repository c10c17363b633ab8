"""Batches of rows of similar length, dealt to ranks; planned pool by pool, so memory does not grow with the corpus.

They are planned by NumPy alone: torch operators before ranks and jobs of a sweep fork can make them hang.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
import torch
from torch.utils.data import Dataset, Sampler

from attnx.data.batches import Batch, collate
from attnx.data.dataset import PairDataset, Row
from attnx.data.permutation import Integers, Permutation
from attnx.data.vocabulary import PAD
from attnx.errors import UserError

Order = Callable[[Integers], Integers]
# Rows from which the number of rows in a batch of tokens is estimated.
MAX_ROWS_TO_ESTIMATE = 1000


class BucketBatches(Sampler[list[int]]):
    """Batches of rows of similar length; the ``batch_sampler`` of a loader.

    Shuffled rows are cut into pools. A pool is sorted by the longer side and cut into batches, which are then shuffled.
    One pool is in memory at a time. Batch k of epoch e depends on (seed, e, k) and the rows alone, every epoch has as
    many batches as the first one, and every row is in exactly one of them.

    With ``tokens`` the number of batches of a pool depends on its rows. Pools therefore have the same rows in every
    epoch, in another order. Without ``shuffle`` every epoch is the same: pools and batches in order.

    Args:
        rows: the dataset.
        size: rows in a batch; one batch of the epoch may be smaller.
        tokens: or instead, the most that rows x longest side may be, padding counted, as fairseq's ``max-tokens``; a
            longer row is a batch of its own.
        seed: 0 or more.
        shuffle: another order each epoch (training), or the same (evaluation).
        pool: batches sorted together, about; more means less padding and less randomness.

    Raises:
        UserError: a number is out of its range, or not exactly one of ``size`` and ``tokens`` is given.
    """

    def __init__(
        self,
        rows: PairDataset,
        size: int | None = None,
        tokens: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        pool: int = 50,
    ) -> None:
        limit = tokens if size is None else size
        if limit is None or (size is not None and tokens is not None):
            raise UserError(f"a batch has either a size ({size}) or a number of tokens ({tokens}): set one of them")
        if limit < 1 or pool < 1 or seed < 0:
            raise UserError(f"batch size {limit} and pool {pool} must be 1 or more, seed {seed} 0 or more")
        self.rows, self.size, self.tokens = rows, size, tokens
        self.seed, self.shuffle = seed, shuffle
        self.has_fixed_pools = shuffle and tokens is not None
        if size is None and len(rows):  # of tokens: about as many rows as fit
            sample = np.arange(0, len(rows), max(1, len(rows) // MAX_ROWS_TO_ESTIMATE))
            size = max(1, int(limit / rows.lengths(sample).max(1).mean()))
        self.pool_rows = min(pool * (size or 1), max(1, len(rows)))
        self.num_pools = -(-len(rows) // self.pool_rows)
        self.epoch, self.start = 0, 0

    @property
    def sampler(self) -> BucketBatches:
        """Itself: Lightning calls ``set_epoch`` on ``loader.batch_sampler.sampler``."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; a ``start`` set for another epoch is dropped, one set for this epoch stays."""
        if epoch != self.epoch:
            self.epoch, self.start = epoch, 0

    def resume(self, epoch: int, start: int) -> None:
        """Set the epoch and skip its first ``start`` batches, until ``set_epoch`` sets another epoch."""
        if not 0 <= start <= len(self):
            raise ValueError(f"cannot start at batch {start} of an epoch of {len(self)} batches")
        self.epoch, self.start = epoch, start

    def __len__(self) -> int:
        """Return the number of batches of a complete epoch, whatever ``start`` is; the same for every epoch."""
        return int(self._batch_counts.sum())

    def __iter__(self) -> Iterator[list[int]]:
        """Return the batches of this epoch; a later ``set_epoch`` does not affect them."""
        return self._batches(self.epoch, self.start)

    def _batches(self, epoch: int, start: int) -> Iterator[list[int]]:
        order, pools = self._order(epoch), np.arange(self.num_pools)
        if self.has_fixed_pools:
            pools = np.random.default_rng((self.seed, epoch, 3)).permutation(pools)
        if start:
            ends = np.cumsum(self._batch_counts[pools])
            skipped = int(np.searchsorted(ends, start, side="right"))
            start -= int(ends[skipped - 1]) if skipped else 0
            pools = pools[skipped:]
        for pool in pools.tolist():
            rng = np.random.default_rng((self.seed, epoch, 2, pool))
            # Rows of equal length are shuffled too if pools stay the same.
            rows, bounds = self._cut_pool(order, pool, rng.permutation if self.has_fixed_pools else None)
            batches = np.arange(len(bounds) - 1)
            if self.shuffle:
                rng.shuffle(batches)
            for k in batches[start:].tolist():
                yield rows[bounds[k] : bounds[k + 1]]
            start = 0

    def _order(self, epoch: int) -> Order:
        """Return the map from positions in an epoch to rows."""
        if not self.shuffle:
            return lambda positions: positions
        return Permutation(len(self.rows), (self.seed, 0 if self.has_fixed_pools else epoch, 1))

    @cached_property
    def _batch_counts(self) -> Integers:
        """The number of batches in each pool, in every epoch; with ``tokens`` this reads all lengths."""
        if self.size is not None:
            ends = np.minimum(np.arange(1, self.num_pools + 1) * self.pool_rows, len(self.rows))
            return -(np.diff(ends, prepend=0) // -self.size)
        order = self._order(0)
        return np.array([len(self._cut_pool(order, pool)[1]) - 1 for pool in range(self.num_pools)], dtype=np.int64)

    def _cut_pool(self, order: Order, pool: int, shuffle: Order | None = None) -> tuple[list[int], list[int]]:
        """Return the sorted rows of a pool, and the bounds of its batches."""
        rows = order(np.arange(pool * self.pool_rows, min((pool + 1) * self.pool_rows, len(self.rows))))
        if shuffle is not None:
            rows = shuffle(rows)
        source, target = self.rows.lengths(rows).T
        longer = np.maximum(source, target)
        # Narrow integers are sorted ten times as fast.
        narrow = np.min_scalar_type(int(longer.max()))
        ascending = np.lexsort((source.astype(narrow), longer.astype(narrow)))
        if self.size is not None:
            bounds = [*range(0, len(rows), self.size), len(rows)]
        else:
            assert self.tokens is not None
            bounds = _token_bounds(longer[ascending], self.tokens)
        return rows[ascending].tolist(), bounds


def _token_bounds(lengths: Integers, tokens: int) -> list[int]:
    """Return the bounds of batches of at most ``tokens``; ``lengths`` are sorted."""
    bounds = [0]
    while (start := bounds[-1]) < len(lengths):
        window = lengths[start : start + max(1, tokens // int(lengths[start]))]
        fitting = int(np.count_nonzero(window * np.arange(1, len(window) + 1) <= tokens))
        bounds.append(start + max(1, fitting))
    return bounds


class ShardedBatchSampler(Sampler[list[int]]):
    """One rank's shards of each batch, one per accumulation step; the ``batch_sampler`` of a loader.

    Rows are dealt round-robin over ranks and accumulation steps: a batch is sorted by length, so that shards have
    similar lengths and take equally long. Every row of a batch is in exactly one shard, so that all ranks together
    learn from the rows that one process would. An empty shard gets one dummy row (``~row``, loss 0), so that every
    rank takes part in every step.

    >>> from attnx.data.dataset import PairDataset
    >>> from attnx.data.dataset import Ragged
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

    def __init__(self, rows: PairDataset) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        """Return one row, with ``index`` as its index."""
        return self.rows[max(index, ~index)]._replace(row_index=index)


def collate_shard(rows: Sequence[Row]) -> Batch:
    """Pad rows; dummy rows have no target."""
    batch = collate(rows)
    if rows[0].row_index >= 0:
        return batch
    loss_mask = None if batch.loss_mask is None else torch.zeros_like(batch.loss_mask)
    target, target_mask = torch.full_like(batch.target, PAD), torch.zeros_like(batch.target_mask)
    return batch._replace(target=target, target_mask=target_mask, loss_mask=loss_mask)
