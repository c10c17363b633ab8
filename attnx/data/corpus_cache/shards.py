"""A cached corpus in shards: each is a folder of memory-mapped files, mapped when a row of it is first read."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from attnx.data.corpus_cache.memmap import (
    HEADER,
    Entry,
    Header,
    check_ids,
    describe_ids,
    map_files,
    read_header,
    sort_by_tag,
    write_header,
    write_rows,
)
from attnx.data.dataset import PairDataset, Row, Rows
from attnx.data.permutation import Integers
from attnx.data.ragged import Ragged
from attnx.data.vocabulary import Vocabulary

TAG_FILES = ("rows_by_tag", "tag_offsets")


def shard_folder(folder: Path, index: int) -> Path:
    """Return the folder of a shard."""
    return folder / f"{index:06d}"


def write_shard(
    folder: Path, entries: Iterable[Entry], source: Vocabulary, target: Vocabulary, tags: Sequence[str]
) -> None:
    """Encode the entries of a shard, which may have none, into an empty folder."""
    files = write_rows(folder, entries, source, target, tags)
    rows = max(0, files["source.offsets"]["count"] - 1)
    write_header(folder, {"rows": rows, **describe_ids(source, target, tags), "files": files})


def index_shards(folder: Path, count: int, source: Vocabulary, target: Vocabulary, tags: Sequence[str]) -> None:
    """Write the header of ``count`` complete shards, and their rows by tag; a UserError if a shard is incomplete."""
    shards = [shard_folder(folder, index) for index in range(count)]
    rows = [read_header(shard)["rows"] for shard in shards]
    files = sort_by_tag(folder, [shard for shard, n in zip(shards, rows, strict=True) if n], len(tags)) if tags else {}
    hashes = [hashlib.sha256((shard / HEADER).read_bytes()).hexdigest() for shard in shards]
    write_header(folder, {"rows": rows, "sha256": hashes, **describe_ids(source, target, tags), "files": files})


def read_shards(folder: Path, source: Vocabulary, target: Vocabulary, tags: Sequence[str] = ()) -> ShardedRows:
    """Open shards; a UserError if one is incomplete, or they are of other symbols or tags."""
    header = read_header(folder, ("rows", "sha256"), TAG_FILES if tags else ())
    check_ids(folder, header, source, target, tags)
    for index in range(len(header["rows"])):
        read_header(shard_folder(folder, index))
    return ShardedRows(folder.absolute(), header)


class ShardedRows(Rows):
    """The rows of all shards, in order.

    A process maps a shard when it first reads a row of it; mapped pages are shared by all processes of a machine.
    """

    def __init__(self, folder: Path, header: Header) -> None:
        self.folder, self.header = folder, header
        self.starts = np.cumsum([0, *header["rows"]], dtype=np.int64)
        self._first_rows: list[int] = self.starts[:-1].tolist()
        self._mapped: dict[int, PairDataset] = {}

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.starts[-1])

    def __getitem__(self, index: int) -> Row:
        """Return one row; its arrays are views, not copies."""
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of a dataset of {len(self)} rows")
        number = bisect_right(self._first_rows, index) - 1
        shard, row = self._map(number), index - self._first_rows[number]
        return Row(shard.sources.row(row), shard.targets.row(row), index, int(shard.tags[row]))

    def __reduce__(self) -> tuple[type[ShardedRows], tuple[Path, Header]]:
        """Pickle the header; another process maps the shards for itself."""
        return ShardedRows, (self.folder, self.header)

    def lengths(self, rows: Integers) -> Integers:
        """Return (rows, 2), the source and target lengths (``EOS`` counted) of ``rows``."""
        shards = np.searchsorted(self.starts[:-1], rows, side="right") - 1
        lengths = np.empty((len(rows), 2), np.int64)
        for shard in np.unique(shards).tolist():
            positions = np.flatnonzero(shards == shard)
            lengths[positions] = self._map(shard).lengths(rows[positions] - self.starts[shard])
        return lengths

    def fingerprint(self) -> str:
        """Return a hash of the hashes of all files."""
        return hashlib.sha256((self.folder / HEADER).read_bytes()).hexdigest()[:16]

    def rows_by_tag(self) -> Ragged:
        """Return the row indices of each tag, tag after tag; of data without tags all rows."""
        files = self.header["files"]
        if not files:
            return Ragged(np.arange(len(self)), np.array([0, len(self)]))
        maps = (np.asarray(np.memmap(self.folder / name, files[name]["dtype"], "r")) for name in TAG_FILES)
        return Ragged(*maps)

    def _map(self, shard: int) -> PairDataset:
        if shard not in self._mapped:
            self._mapped[shard] = map_files(shard_folder(self.folder, shard))
        return self._mapped[shard]
