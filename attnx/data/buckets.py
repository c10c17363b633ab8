"""Batches of rows of similar length, planned pool by pool: memory does not grow with the corpus.

NumPy alone: torch operators before the loader's workers fork can make them hang.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
from torch.utils.data import Sampler

from attnx.data.batches import PairDataset
from attnx.data.permutation import Numbers, Permutation, TemperatureSampler
from attnx.errors import UserError

Order = Callable[[Numbers], Numbers]


class BucketBatches(Sampler[list[int]]):
    """Batches of rows of similar length; give it to a loader as ``batch_sampler``.

    Shuffled rows are cut into pools, a pool is sorted by the longer side and cut into batches, and its batches are
    shuffled. One pool is in memory at a time. Batch k of epoch e depends on (seed, e, k) and the rows alone, every
    epoch has as many batches as the first one, and without a temperature every row is in exactly one of them.

    How many batches of so many ``tokens`` a pool makes depends on its rows. Pools therefore hold the same rows in
    every epoch and only come in another order; under a temperature, which changes the rows, an epoch that runs out
    of batches goes on into the next one's, and one that has too many is cut. Without ``shuffle`` every epoch is the
    same: pools and batches in order.

    Args:
        rows: the dataset.
        size: rows in a batch; one batch of the epoch may be smaller.
        tokens: or else, the most that rows x longest side may be, padding counted, as in fairseq's ``max-tokens``; a
            row that is longer is a batch of its own.
        seed: 0 or more.
        shuffle: another order each epoch (training), or the same (evaluation).
        pool: batches sorted together, about; more means less padding and less chance.
        temperature: of sampling by tag, to train on; 1 takes every row once.

    Raises:
        UserError: a number is out of its range, or not just one of ``size`` and ``tokens`` is given.
    """

    def __init__(
        self,
        rows: PairDataset,
        size: int | None = None,
        tokens: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        pool: int = 50,
        temperature: float = 1.0,
    ) -> None:
        limit = tokens if size is None else size
        if limit is None or (size is not None and tokens is not None):
            raise UserError(f"a batch has a size ({size}) or else a number of tokens ({tokens}): give one of them")
        if limit < 1 or pool < 1 or seed < 0:
            raise UserError(f"batch size {limit} and pool {pool} must be 1 or more, seed {seed} 0 or more")
        if not temperature >= 1 or (temperature > 1 and not shuffle):
            raise UserError(f"temperature {temperature} must be 1 or more, and 1 where rows are not shuffled")
        self.rows, self.size, self.tokens = rows, size, tokens
        self.seed, self.shuffle = seed, shuffle
        self.tempered = TemperatureSampler(*rows.rows_by_tag(), temperature, seed) if temperature > 1 else None
        self.same_pools = shuffle and tokens is not None and temperature == 1
        self.at_once = pool * (size or self._typical(limit))
        self.pools = -(-len(rows) // self.at_once)
        self.epoch = 0
        self.start = 0
        self._length: int | None = None
        self._counted: tuple[int, Numbers] | None = None

    def _typical(self, tokens: int) -> int:
        """How many rows so many tokens make, judged by a thousand of them."""
        sample = np.arange(0, len(self.rows), max(1, len(self.rows) // 1000))
        return max(1, int(tokens / self.rows.lengths(sample).max(1).mean())) if len(sample) else 1

    @property
    def sampler(self) -> BucketBatches:
        """Itself: Lightning calls ``set_epoch`` on ``loader.batch_sampler.sampler``."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Turn to ``epoch``; a ``start`` set for another epoch is forgotten, one set for this epoch stays."""
        if epoch != self.epoch:
            self.epoch, self.start = epoch, 0

    def resume(self, epoch: int, start: int) -> None:
        """Turn to ``epoch`` and skip its first ``start`` batches, until ``set_epoch`` names another epoch."""
        if not 0 <= start <= len(self):
            raise ValueError(f"cannot start at batch {start} of an epoch of {len(self)} batches")
        self.epoch, self.start = epoch, start

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch, whatever ``start`` is, the same for every epoch."""
        if self._length is None:
            self._length = int(self._counts(0).sum())
        return self._length

    def __iter__(self) -> Iterator[list[int]]:
        """Return the batches of this epoch; a later ``set_epoch`` does not disturb them."""
        return itertools.islice(self._batches(self.epoch, self.start), len(self) - self.start)

    def _batches(self, epoch: int, start: int) -> Iterator[list[int]]:
        for draw, pools in self._draws(epoch):
            order = self._order(draw)
            if start:
                ends = np.cumsum(self._counts(draw)[pools])
                skipped = int(np.searchsorted(ends, start, side="right"))
                start -= int(ends[skipped - 1]) if skipped else 0
                pools = pools[skipped:]
            for pool in pools.tolist():
                chance = np.random.default_rng((self.seed, epoch, 2, pool))
                # Which rows of equal lengths meet is left to chance, in pools that stay the same too.
                rows, bounds = self._pool(order, pool, chance.permutation if self.same_pools else None)
                batches = np.arange(len(bounds) - 1)
                if self.shuffle:
                    chance.shuffle(batches)
                for k in batches[start:].tolist():
                    yield rows[bounds[k] : bounds[k + 1]]
                start = 0

    def _draws(self, epoch: int) -> Iterator[tuple[int, Numbers]]:
        """Yield the numbers of draws of the rows, and the order of their pools."""
        pools = np.arange(self.pools)
        if not self.shuffle:
            yield 0, pools
        elif self.same_pools:
            yield 0, np.random.default_rng((self.seed, epoch, 3)).permutation(pools)
        else:
            yield from ((draw, pools) for draw in itertools.count(epoch))

    def _order(self, draw: int) -> Order:
        """Return what turns places in a draw of the rows into rows."""
        tempered = self.tempered
        if not self.shuffle:
            return lambda places: places
        order = Permutation(len(self.rows), (self.seed, draw, 1))
        return order if tempered is None else lambda places: tempered.draw(draw, order(places))

    def _counts(self, draw: int) -> Numbers:
        """Return how many batches each pool of a draw makes; by tokens that takes a look at all lengths."""
        if self.size is not None:
            ends = np.minimum(np.arange(1, self.pools + 1) * self.at_once, len(self.rows))
            return -(np.diff(ends, prepend=0) // -self.size)
        if self._counted is None or self._counted[0] != draw:
            order = self._order(draw)
            counts = [len(self._pool(order, pool)[1]) - 1 for pool in range(self.pools)]
            self._counted = draw, np.array(counts, dtype=np.int64)
        return self._counted[1]

    def _pool(self, order: Order, pool: int, shuffle: Order | None = None) -> tuple[list[int], list[int]]:
        """Return the rows of a pool, sorted, and where its batches begin and the last ends."""
        rows = order(np.arange(pool * self.at_once, min((pool + 1) * self.at_once, len(self.rows))))
        if shuffle is not None:
            rows = shuffle(rows)
        source, target = self.rows.lengths(rows).T
        width = np.maximum(source, target)
        # Narrow numbers are sorted ten times as fast.
        narrow = np.min_scalar_type(int(width.max()))
        ascending = np.lexsort((source.astype(narrow), width.astype(narrow)))
        if self.size is not None:
            bounds = [*range(0, len(rows), self.size), len(rows)]
        else:
            assert self.tokens is not None
            bounds = _cut(width[ascending], self.tokens)
        return rows[ascending].tolist(), bounds


def _cut(widths: Numbers, tokens: int) -> list[int]:
    """Return where batches of at most so many tokens begin, and where the last one ends; ``widths`` are sorted."""
    bounds = [0]
    while (start := bounds[-1]) < len(widths):
        window = widths[start : start + max(1, tokens // int(widths[start]))]
        fitting = int(np.count_nonzero(window * np.arange(1, len(window) + 1) <= tokens))
        bounds.append(start + max(1, fitting))
    return bounds
