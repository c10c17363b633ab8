"""Ragged arrays: sequences of different lengths in one flat array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from attnx.data.permutation import Integers


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
    def of(cls, sequences: Iterable[Sequence[int]]) -> Ragged:
        """Concatenate sequences of ids."""
        rows = list(sequences)
        flat = np.array(list(chain.from_iterable(rows)), dtype=np.int32)
        return cls(flat, np.cumsum([0, *map(len, rows)], dtype=np.int64))

    @classmethod
    def from_matrices(cls, matrices: Sequence[npt.NDArray[Any]]) -> Ragged:
        """Concatenate matrices (s, f)."""
        return cls(np.concatenate(matrices), np.cumsum([0, *map(len, matrices)], dtype=np.int64))

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
