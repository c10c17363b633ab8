"""Encoded examples in an Arrow file, mapped into memory: for corpora larger than memory."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attnx.data.dataset import PairDataset, Ragged, Row, Rows, Sequences
from attnx.data.permutation import Integers
from attnx.errors import UserError
from attnx.registry.dependencies import require_package


class ArrowRows(Rows):
    """The rows of an Arrow file; its pages are in memory once for all processes of a machine.

    The file is a stream of record batches, as the ``cache_file_name`` of `datasets.map` is. It has the columns
    ``source`` and ``target``, lists of ids (targets end with ``EOS``), and for data with tags the column ``tag``, each
    row's index of its tag. ``known_fingerprint`` saves reading all rows.

    Raises:
        UserError: the file cannot be read, or has other columns.
    """

    def __init__(self, path: Path, known_fingerprint: str = "") -> None:
        self.path, self.known_fingerprint = path.absolute(), known_fingerprint
        pyarrow: Any = require_package("pyarrow", "datasets", str(path))
        try:
            with pyarrow.ipc.open_stream(pyarrow.memory_map(str(path))) as batches:
                self.parts = [_map_batch(batch) for batch in batches if len(batch)]
        except (OSError, pyarrow.ArrowException, KeyError, AttributeError) as error:
            raise UserError(f"{path}: is not an Arrow file of rows: {error}") from error
        self.starts = np.cumsum([0, *map(len, self.parts)], dtype=np.int64)
        self._first_rows: list[int] = self.starts[:-1].tolist()

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, index: int) -> Row:
        """Return one row; its arrays are views, not copies."""
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of a dataset of {len(self)} rows")
        place = bisect_right(self._first_rows, index) - 1
        part, row = self.parts[place], index - self._first_rows[place]
        return Row(part.sources.row(row), part.targets.row(row), index, int(part.tags[row]))

    def lengths(self, rows: Integers) -> Integers:
        """Return (rows, 2), the source and target lengths (``EOS`` counted) of ``rows``."""
        places = np.searchsorted(self.starts, rows, side="right") - 1
        lengths = np.empty((len(rows), 2), np.int64)
        for place in np.unique(places).tolist():
            positions = np.flatnonzero(places == place)
            lengths[positions] = self.parts[place].lengths(rows[positions] - self.starts[place])
        return lengths

    def fingerprint(self) -> str:
        """Return a hash of all rows; equal rows in memory have the same."""
        if self.known_fingerprint:
            return self.known_fingerprint
        digest = hashlib.sha256()
        for sides in ([part.sources for part in self.parts], [part.targets for part in self.parts]):
            for side in sides:
                digest.update(np.ascontiguousarray(side.flat, dtype=np.int32).data)  # as they are in memory
            for offsets in _offsets(sides):
                digest.update(offsets.data)
        for part in self.parts:
            digest.update(np.ascontiguousarray(part.tags).data)
        return digest.hexdigest()[:16]


def _map_batch(batch: Any) -> PairDataset:
    """Map the columns of a record batch without a copy."""
    source, target = (
        Ragged(column.values.to_numpy(), column.offsets.to_numpy())
        for column in (batch.column("source"), batch.column("target"))
    )
    return PairDataset(source, target, batch.column("tag").to_numpy() if "tag" in batch.schema.names else None)


def _offsets(sides: Sequence[Sequences]) -> Iterator[Integers]:
    """Yield where each sequence starts in the ids of all parts, and where the last one ends."""
    end = np.zeros(1, np.int64)
    yield end
    for side in sides:
        ends = end[-1] + side.offsets[1:].astype(np.int64)
        yield ends
        end = ends
