"""Encoded examples as a torch dataset: ragged NumPy arrays that forked processes share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

from attnx.data.examples import Pair
from attnx.data.features import FeatureScaler, Matrix
from attnx.data.permutation import Integers
from attnx.data.vocabulary import Vocabulary


class Sequences(Protocol):
    """Sequences by index: a :class:`Ragged` array, or windows over a longer array."""

    @property
    def flat(self) -> npt.NDArray[Any]: ...  # noqa: D102 - the array that holds their elements
    @property
    def offsets(self) -> Integers: ...  # noqa: D102 - where each sequence starts, and one entry more

    def row(self, index: int) -> npt.NDArray[Any]:
        """Return one sequence."""
        ...

    def lengths(self, indices: Integers) -> Integers:
        """Return the lengths of the sequences ``indices``."""
        ...


class Ragged(NamedTuple):
    """Sequences of different lengths end to end; sequence i is ``flat[offsets[i]:offsets[i + 1]]``.

    Attributes:
        flat: (n,) ids, or (n, f) float32 features, one row per step.
        offsets: start of each sequence, then the end of the last.
    """

    flat: npt.NDArray[Any]
    offsets: Integers

    @classmethod
    def of(cls, sequences: Iterable[Sequence[int] | npt.NDArray[Any]]) -> Ragged:
        """Concatenate lists of ids, or arrays."""
        rows = list(sequences)
        is_array = bool(rows) and isinstance(rows[0], np.ndarray)
        flat = np.concatenate(rows) if is_array else np.array(list(chain.from_iterable(rows)), dtype=np.int32)
        return cls(flat, np.cumsum([0, *map(len, rows)], dtype=np.int64))

    @classmethod
    def concat(cls, parts: Sequence[Ragged]) -> Ragged:
        """Concatenate ragged arrays."""
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(np.concatenate([part.flat for part in parts]), np.append(0, np.cumsum(lengths)))

    def row(self, index: int) -> npt.NDArray[Any]:
        """Return one sequence as a view."""
        return self.flat[self.offsets[index] : self.offsets[index + 1]]

    def lengths(self, indices: Integers) -> Integers:
        """Return the lengths of the sequences ``indices``."""
        return self.offsets[indices + 1] - self.offsets[indices]


Ids = npt.NDArray[np.integer[Any]]
ROWS_PER_PIECE = 2**20


class Row(NamedTuple):
    """One example: ids or features of each side (target ids end with ``EOS``), its index and its tag's index.

    Where a target labels the steps of its source, it has no ``EOS``; ``loss_mask`` says which steps count.
    """

    source: Ids | Matrix
    target: Ids | Matrix
    row_index: int
    tag: int = 0
    loss_mask: npt.NDArray[np.bool_] | None = None


class PairDataset(Dataset[Row]):
    """Encoded examples in a few arrays; forked ranks and jobs share their memory pages.

    Attributes:
        tags: (rows,) index of each row's tag; 0 without tags.
        loss_masks: bool for each step of ``targets``, whether it counts; None if all do.
        known_fingerprint: saves reading all rows, which may be in files.
    """

    def __init__(
        self,
        sources: Sequences,
        targets: Sequences,
        tags: Ids | None = None,
        loss_masks: Sequences | None = None,
        known_fingerprint: str = "",
    ) -> None:
        self.sources, self.targets, self.loss_masks = sources, targets, loss_masks
        self.known_fingerprint = known_fingerprint
        self.tags = np.broadcast_to(np.uint8(0), len(self)) if tags is None else tags

    @classmethod
    def from_pairs(
        cls,
        pairs: Sequence[Pair],
        source: Vocabulary | FeatureScaler,
        target: Vocabulary | FeatureScaler,
        every_reference: bool,
        tags: Sequence[str] = (),
    ) -> PairDataset:
        """Encode pairs: a row for every reference (training), or for the first one only (evaluation).

        ``tags`` are all tags in the order of their index; without any, all rows have tag 0. A pair without a reference
        and a tag that is not listed are ValueErrors.
        """
        sources: list[Any] = []
        targets: list[Any] = []
        row_tags: list[str] = []
        loss_masks: list[npt.NDArray[np.bool_]] = []
        for index, pair in enumerate(pairs):
            if not pair.references:
                raise ValueError(f"pair {index} ({pair.source_text!r}) has no reference")
            references = pair.references if every_reference else pair.references[:1]
            encoded = _scale(source, pair.features) if isinstance(source, FeatureScaler) else source.encode(pair.source)
            sources += [encoded] * len(references)
            if pair.loss_mask:
                loss_masks.append(np.array(pair.loss_mask))
            if isinstance(target, FeatureScaler):
                targets += [_scale(target, pair.target, np.nan)] * len(references)
            else:
                targets += [target.encode(reference, end=not pair.loss_mask) for reference in references]
            row_tags += [pair.tag] * len(references)
        indices = tag_indices(row_tags, tags) if tags else None
        return cls(Ragged.of(sources), Ragged.of(targets), indices, Ragged.of(loss_masks) if loss_masks else None)

    def __len__(self) -> int:
        return len(self.sources.offsets) - 1

    def __getitem__(self, index: int) -> Row:
        """Return one row; its arrays are views, not copies."""
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of a dataset of {len(self)} rows")
        loss_mask = None if self.loss_masks is None else self.loss_masks.row(index)
        return Row(self.sources.row(index), self.targets.row(index), index, int(self.tags[index]), loss_mask)

    def lengths(self, rows: Integers) -> Integers:
        """Return (rows, 2), the source and target lengths (``EOS`` counted) of ``rows``."""
        return np.stack([self.sources.lengths(rows), self.targets.lengths(rows)], axis=1)

    def fingerprint(self) -> str:
        """Return a hash of all rows, which changes with the data."""
        if self.known_fingerprint:
            return self.known_fingerprint
        digest = hashlib.sha256()
        masks = () if self.loss_masks is None else (self.loss_masks.flat,)
        sides = (self.sources.flat, self.sources.offsets, self.targets.flat, self.targets.offsets)
        for array in (*sides, self.tags, *masks):
            for start in range(0, len(array), ROWS_PER_PIECE):  # of what may be larger than memory
                piece = array[start : start + ROWS_PER_PIECE]
                # Narrow ids count as wide ones.
                digest.update(np.ascontiguousarray(piece, np.int32 if array.dtype == np.uint16 else None).data)
        return digest.hexdigest()[:16]


def _scale(side: FeatureScaler, matrix: Matrix | None, missing: float = 0.0) -> Matrix:
    if matrix is None:
        raise ValueError("a pair holds no features where a matrix is expected")
    return side.encode(matrix, missing)


def tag_indices(tags: Sequence[str], known_tags: Sequence[str]) -> Integers:
    """Return the index of each of ``tags`` among ``known_tags``; a ValueError for an unknown one."""
    indices = {tag: index for index, tag in enumerate(known_tags)}
    if missing := sorted(set(tags) - set(known_tags)):
        raise ValueError(f"the tag {missing[0]!r} is none of {', '.join(known_tags)}")
    return np.array([indices[tag] for tag in tags], dtype=np.int64)
