"""From pairs to padded batches: flat arrays of ids, one collate function, batches of similar lengths.

Everything that runs before the loader's workers fork is NumPy: a torch operator may open an OpenMP region,
and a fork after one can hang.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from attnx.data.pairs import Pair
from attnx.data.shuffle import Numbers
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError
from attnx.symbols import PAD

Ids = npt.NDArray[np.integer[Any]]


class Row(NamedTuple):
    """One example: the source ids, the target ids with their ``EOS``, the row's number in the dataset, and its tag."""

    source: Ids
    target: Ids
    number: int
    tag: int = 0


class Batch(NamedTuple):
    """Rows padded to the longest of them.

    Attributes:
        source: (b, s) int64 ids, then ``PAD``.
        present: (b, s) bool, True where ``source`` is real.
        target: (b, t) int64 ids, then ``EOS``, then ``PAD``.
        index: (b,) int64, the rows' numbers in the dataset.
        tag: (b,) int64, the number of each row's tag; 0 where there are no tags.
    """

    source: Tensor
    present: Tensor
    target: Tensor
    index: Tensor  # type: ignore[assignment]  # it hides tuple.index, which no batch needs
    tag: Tensor


class Ragged(NamedTuple):
    """Sequences of unlike length end to end; sequence i is ``flat[offsets[i]:offsets[i + 1]]``."""

    flat: Ids
    offsets: Numbers

    @classmethod
    def of(cls, sequences: Iterable[Sequence[int]]) -> Ragged:
        """Lay ``sequences`` end to end."""
        flat: list[int] = []
        offsets = [0]
        for sequence in sequences:
            flat += sequence
            offsets.append(len(flat))
        return cls(np.array(flat, dtype=np.int32), np.array(offsets, dtype=np.int64))

    def row(self, i: int) -> Ids:
        """Return sequence ``i`` as a view."""
        return self.flat[self.offsets[i] : self.offsets[i + 1]]

    def lengths(self, rows: Numbers) -> Numbers:
        """Return the lengths of the sequences ``rows``."""
        return self.offsets[rows + 1] - self.offsets[rows]


class PairDataset(Dataset[Row]):
    """Encoded rows in a handful of arrays: quick to pickle, and forked workers share their pages for good.

    Attributes:
        pair_of: (rows,) the number of the pair that each row was made from; None where row i is pair i.
        tags: (rows,) the number of each row's tag; None where there are none.
        by_tag: the rows of each tag, if known already.
        reopen: how another process comes by the same rows, instead of being sent a copy.
    """

    def __init__(
        self,
        sources: Ragged,
        targets: Ragged,
        pair_of: Numbers | None = None,
        tags: Ids | None = None,
        by_tag: Ragged | None = None,
        reopen: Callable[[], PairDataset] | None = None,
    ) -> None:
        self.sources = sources
        self.targets = targets
        self.pair_of = pair_of
        self.tags = tags
        self.by_tag = by_tag
        self.reopen = reopen

    @classmethod
    def from_pairs(
        cls,
        pairs: Sequence[Pair],
        source_vocabulary: Vocabulary,
        target_vocabulary: Vocabulary,
        every_reference: bool,
        tags: Sequence[str] = (),
    ) -> PairDataset:
        """Encode ``pairs``: a row per pair and reference (to train on), or a row per pair with its first one.

        Args:
            pairs: what to encode.
            source_vocabulary: of the sources.
            target_vocabulary: of the references.
            every_reference: see above.
            tags: every tag, in the order of its number; without any, all rows have number 0.

        Raises:
            ValueError: a pair has no reference, or a tag that is not listed.
        """
        sources, targets, pair_of = [], [], []
        for number, pair in enumerate(pairs):
            if not pair.references:
                raise ValueError(f"pair {number} ({''.join(pair.source)!r}) has no reference")
            source = source_vocabulary.encode(pair.source)
            for reference in pair.references if every_reference else pair.references[:1]:
                sources.append(source)
                targets.append(target_vocabulary.encode(reference, end=True))
                pair_of.append(number)
        numbers = number_tags([pairs[number].tag for number in pair_of], tags) if tags else None
        return cls(Ragged.of(sources), Ragged.of(targets), np.array(pair_of, dtype=np.int64), numbers)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.sources.offsets) - 1

    def __getitem__(self, index: int) -> Row:
        """Return one row; its arrays are views, not copies."""
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of a dataset of {len(self)} rows")
        tag = 0 if self.tags is None else int(self.tags[index])
        return Row(self.sources.row(index), self.targets.row(index), index, tag)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle the arrays, or the way to them."""
        return (self.reopen, ()) if self.reopen else super().__reduce_ex__(protocol)

    def lengths(self, rows: Numbers | None = None) -> Numbers:
        """Return (rows, 2): the source length and the target length, ``EOS`` counted, of ``rows``, by default all."""
        rows = np.arange(len(self)) if rows is None else rows
        return np.stack([self.sources.lengths(rows), self.targets.lengths(rows)], axis=1)

    def rows_by_tag(self) -> Ragged:
        """Return the numbers of the rows of each tag.

        Raises:
            ValueError: there are no tags.
        """
        if self.by_tag is not None:
            return self.by_tag
        if self.tags is None:
            raise ValueError("rows without tags cannot be drawn by tag")
        return Ragged(np.argsort(self.tags, kind="stable"), np.append(0, np.cumsum(np.bincount(self.tags))))


def number_tags(tags: Sequence[str], known: Sequence[str]) -> Numbers:
    """Return the place of each of ``tags`` among the ``known`` ones.

    Raises:
        ValueError: one is not known.
    """
    numbers = {tag: number for number, tag in enumerate(known)}
    if missing := sorted(set(tags) - set(known)):
        raise ValueError(f"the tag {missing[0]!r} is none of {', '.join(known)}")
    return np.array([numbers[tag] for tag in tags], dtype=np.int64)


def collate(rows: Sequence[Row]) -> Batch:
    """Pad rows to the longest source and the longest target among them."""
    source = _pad([row.source for row in rows])
    target = _pad([row.target for row in rows])
    index, tag = (np.array(listed, dtype=np.int64) for listed in zip(*((row.number, row.tag) for row in rows)))
    return Batch(*map(torch.from_numpy, (source, source != PAD, target, index, tag)))


def _pad(rows: Sequence[Ids]) -> Numbers:
    padded = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int64)
    for line, row in zip(padded, rows, strict=True):
        line[: len(row)] = row
    return padded


class BucketBatches(Sampler[list[int]]):
    """Batches of rows of similar length, every row once an epoch; give it to a loader as ``batch_sampler``.

    Shuffled rows are cut into pools of ``pool`` batches, each pool is sorted by length and cut into batches,
    and the batches are shuffled. Batch k of epoch e depends on (seed, e, k) and the lengths alone. Without
    ``shuffle`` every epoch is the same: all rows sorted by length.

    Args:
        lengths: (rows, 2) source and target lengths.
        size: rows in a batch; one batch of the epoch may be smaller.
        seed: 0 or more.
        shuffle: another order each epoch (training), or sorted (evaluation).
        pool: batches sorted together; more means less padding and less chance.

    Raises:
        UserError: ``size`` or ``pool`` is below 1, or ``seed`` below 0.
    """

    def __init__(self, lengths: Numbers, size: int, seed: int = 0, shuffle: bool = True, pool: int = 50) -> None:
        if size < 1 or pool < 1 or seed < 0:
            raise UserError(f"batch size {size} and pool {pool} must be 1 or more, seed {seed} 0 or more")
        self.lengths = lengths
        self.size = size
        self.seed = seed
        self.shuffle = shuffle
        self.pool = pool
        self.epoch = 0
        self.start = 0

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
        """Return the number of batches of a whole epoch, whatever ``start`` is."""
        return (len(self.lengths) + self.size - 1) // self.size

    def __iter__(self) -> Iterator[list[int]]:
        """Plan the epoch at once (so a later ``set_epoch`` cannot disturb it) and return its batches."""
        rows, batches = self._plan()
        size = self.size
        return (rows[k * size : (k + 1) * size].tolist() for k in batches[self.start :].tolist())

    def _plan(self) -> tuple[Numbers, Numbers]:
        """Return the rows in the order in which batches are cut, and the order of the batches."""
        source, target = self.lengths.T
        if not self.shuffle:
            return np.lexsort((target, source)), np.arange(len(self))
        chance = np.random.default_rng((self.seed, self.epoch))
        rows = chance.permutation(len(self.lengths))
        pools = np.arange(len(rows)) // (self.size * self.pool)
        rows = rows[np.lexsort((target[rows], source[rows], pools))]
        return rows, chance.permutation(len(self))
