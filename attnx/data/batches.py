"""From pairs to padded batches: flat arrays of ids or features, and one collate function.

Everything that runs before the loader's workers fork is NumPy: a torch operator may open an OpenMP region,
and a fork after one can hang.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from attnx.data.examples import Pair
from attnx.data.features import Features, Matrix
from attnx.data.permutation import Numbers
from attnx.data.special_tokens import PAD
from attnx.data.vocabulary import Vocabulary

Ids = npt.NDArray[np.integer[Any]]


class Row(NamedTuple):
    """One example: each side's ids, the target's with their ``EOS``, or features; its number and its tag's."""

    source: Ids | Matrix
    target: Ids | Matrix
    number: int
    tag: int = 0


class Batch(NamedTuple):
    """Rows padded to the longest of them.

    Attributes:
        source: (b, s) int64 ids, then ``PAD``; or (b, s, f) float32 features, then zeros.
        present: (b, s) bool, True where ``source`` is real.
        target: (b, t) int64 ids, then ``EOS``, then ``PAD``; or (b, t, g) float32 features, then zeros.
        target_present: (b, t) bool, True where ``target`` is real, its ``EOS`` included.
        index: (b,) int64, the rows' numbers in the dataset.
        tag: (b,) int64, the number of each row's tag; 0 where there are no tags.
        counted: (b, t, g) bool, which numbers of ``target`` somebody measured; in the place of the others stands the
            last one before, or 0. None where all were.
    """

    source: Tensor
    present: Tensor
    target: Tensor
    target_present: Tensor
    index: Tensor  # type: ignore[assignment]  # it hides tuple.index, which no batch needs
    tag: Tensor
    counted: Tensor | None = None


class Sequences(Protocol):
    """Sequences by number: end to end as :class:`Ragged` has them, or cut out of something longer when asked for."""

    @property
    def flat(self) -> npt.NDArray[Any]: ...  # noqa: D102 - what they are cut out of
    @property
    def offsets(self) -> Numbers: ...  # noqa: D102 - where each begins, and one number more

    def row(self, i: int) -> npt.NDArray[Any]:
        """Return sequence ``i``."""
        ...

    def lengths(self, rows: Numbers) -> Numbers:
        """Return the lengths of the sequences ``rows``."""
        ...


class Ragged(NamedTuple):
    """Sequences of unlike length end to end; sequence i is ``flat[offsets[i]:offsets[i + 1]]``.

    Attributes:
        flat: (n,) ids, or (n, f) float32 features, a row a step.
        offsets: where each sequence begins, and at last where the last one ends.
    """

    flat: npt.NDArray[Any]
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

    @classmethod
    def of_matrices(cls, matrices: Sequence[Matrix]) -> Ragged:
        """Lay matrices (s, f) end to end."""
        return cls(np.concatenate(matrices), np.cumsum([0, *map(len, matrices)], dtype=np.int64))

    def row(self, i: int) -> npt.NDArray[Any]:
        """Return sequence ``i`` as a view."""
        return self.flat[self.offsets[i] : self.offsets[i + 1]]

    def lengths(self, rows: Numbers) -> Numbers:
        """Return the lengths of the sequences ``rows``."""
        return self.offsets[rows + 1] - self.offsets[rows]


class PairDataset(Dataset[Row]):
    """Encoded rows in a handful of arrays: quick to pickle, and forked workers share their pages for good.

    Attributes:
        pair_of: (rows,) the number of the pair that each row was made from; None where row i is pair i.
        tags: (rows,) the number of each row's tag; 0 where there are none.
        by_tag: the rows of each tag, if known already.
        reopen: how another process comes by the same rows, instead of being sent a copy.
        pinned: their fingerprint, if it is known without reading them all.
    """

    def __init__(
        self,
        sources: Sequences,
        targets: Sequences,
        pair_of: Numbers | None = None,
        tags: Ids | None = None,
        by_tag: Ragged | None = None,
        reopen: Callable[[], PairDataset] | None = None,
        pinned: str = "",
    ) -> None:
        self.sources = sources
        self.targets = targets
        self.pair_of = pair_of
        self.tags = np.broadcast_to(np.uint8(0), len(self)) if tags is None else tags
        self.by_tag = by_tag
        self.reopen = reopen
        self.pinned = pinned

    @classmethod
    def from_pairs(
        cls,
        pairs: Sequence[Pair],
        source: Vocabulary | Features,
        target: Vocabulary | Features,
        every_reference: bool,
        tags: Sequence[str] = (),
    ) -> PairDataset:
        """Encode ``pairs``: a row per pair and reference (to train on), or a row per pair with its first one.

        Args:
            pairs: what to encode.
            source: the sources' vocabulary, or how their features are scaled.
            target: the references' vocabulary, or how their features are scaled.
            every_reference: see above.
            tags: every tag, in the order of its number; without any, all rows have number 0.

        Raises:
            ValueError: a pair has no reference, or a tag that is not listed.
        """
        sources: list[Any] = []
        targets: list[Any] = []
        pair_of = []
        for number, pair in enumerate(pairs):
            if not pair.references:
                raise ValueError(f"pair {number} ({''.join(pair.source)!r}) has no reference")
            read = _scaled(source, pair.features) if isinstance(source, Features) else source.encode(pair.source)
            for reference in pair.references if every_reference else pair.references[:1]:
                sources.append(read)
                targets.append(
                    _scaled(target, pair.target, np.nan)
                    if isinstance(target, Features)
                    else target.encode(reference, end=True)
                )
                pair_of.append(number)
        numbers = number_tags([pairs[number].tag for number in pair_of], tags) if tags else None
        return cls(_laid(sources, source), _laid(targets, target), np.array(pair_of, dtype=np.int64), numbers)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.sources.offsets) - 1

    def __getitem__(self, index: int) -> Row:
        """Return one row; its arrays are views, not copies."""
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of a dataset of {len(self)} rows")
        return Row(self.sources.row(index), self.targets.row(index), index, int(self.tags[index]))

    def whole(self) -> Batch:
        """Return all rows as one batch, as :func:`collate` makes it of them one by one."""
        every = np.arange(len(self))

        def joined(side: Sequences) -> Joined:
            if isinstance(side, Ragged):
                return side.flat, side.lengths(every)
            return _joined([side.row(row) for row in range(len(self))])

        return _batched(joined(self.sources), joined(self.targets), every, self.tags.astype(np.int64))

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle the arrays, or the way to them."""
        return (self.reopen, ()) if self.reopen else super().__reduce_ex__(protocol)

    def lengths(self, rows: Numbers | None = None) -> Numbers:
        """Return (rows, 2): the source length and the target length, ``EOS`` counted, of ``rows``, by default all."""
        rows = np.arange(len(self)) if rows is None else rows
        return np.stack([self.sources.lengths(rows), self.targets.lengths(rows)], axis=1)

    def fingerprint(self) -> str:
        """Return a hash of all rows, to tell whether data have changed."""
        if self.pinned:
            return self.pinned
        digest = hashlib.sha256()
        for array in (self.sources.flat, self.sources.offsets, self.targets.flat, self.targets.offsets, self.tags):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]

    def rows_by_tag(self) -> Ragged:
        """Return the numbers of the rows of each tag, tag after tag."""
        if self.by_tag is not None:
            return self.by_tag
        return Ragged(np.argsort(self.tags, kind="stable"), np.append(0, np.cumsum(np.bincount(self.tags))))


def _scaled(side: Features, matrix: Matrix | None, unknown: float = 0.0) -> Matrix:
    if matrix is None:
        raise ValueError("a pair holds no features where a matrix is expected")
    return side.encode(matrix, unknown)


def _laid(sequences: list[Any], side: Vocabulary | Features) -> Ragged:
    return Ragged.of_matrices(sequences) if isinstance(side, Features) else Ragged.of(sequences)


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
    index, tag = np.array([(row.number, row.tag) for row in rows], dtype=np.int64).T.copy()
    return _batched(_joined([row.source for row in rows]), _joined([row.target for row in rows]), index, tag)


Joined = tuple[npt.NDArray[Any], Numbers]
"""Sequences end to end, and their lengths."""


def _joined(rows: Sequence[Ids | Matrix]) -> Joined:
    return np.concatenate(rows), np.array(list(map(len, rows)))


def _batched(sources: Joined, targets: Joined, index: Numbers, tag: Numbers) -> Batch:
    """Rows padded, and their numbers and those of their tags."""
    source, present = _pad(*sources)
    target, target_present = _pad(*targets)
    counted = None
    if target.dtype.kind == "f" and bool(np.isnan(target).any()):
        counted = torch.from_numpy(~np.isnan(target))
        target = _filled(target)
    batch = Batch(*map(torch.from_numpy, (source, present, target, target_present, index, tag)))
    return batch._replace(counted=counted)


def _filled(target: Matrix) -> Matrix:
    """(b, t, g) with the last number before in the place of NaN, or 0 where there is none."""
    steps = np.arange(target.shape[1])[:, None]
    last = np.maximum.accumulate(np.where(np.isnan(target), 0, steps), axis=1)
    found: Matrix = np.nan_to_num(np.take_along_axis(target, last, axis=1))
    return found


def _pad(flat: npt.NDArray[Any], lengths: Numbers) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return sequences with PAD (for features, 0) behind them, and where they are real."""
    present = np.arange(lengths.max()) < lengths[:, None]
    dtype = np.float32 if flat.dtype.kind == "f" else np.int64
    padded = np.full((*present.shape, *flat.shape[1:]), PAD, dtype=dtype)
    padded[present] = flat
    return padded, present
