"""Corpora in shards: they read as one corpus, shards are mapped when needed, and processes end with their parent."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import signal
import struct
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnx.data.corpus_cache import worker_processes
from attnx.data.corpus_cache.memmap import Entry, read_corpus, write_corpus
from attnx.data.corpus_cache.shards import ShardedRows, index_shards, read_shards, shard_folder, write_shard
from attnx.data.corpus_cache.worker_processes import Progress, work_on_shards
from attnx.data.readers.lines import FIRST_LINE, LineStart, line_starts
from attnx.data.readers.parallel_corpus import Shard
from attnx.data.vocabulary import Vocabulary
from attnx.errors import UserError

LETTERS = Vocabulary.of(["abc"])
TAGS = ("de", "et")
PARTS: list[list[Entry]] = [
    [],
    [(("a",), ("b", "c"), "et"), (("b", "a"), ("c",), "de")],
    [],
    [(("c",), ("a",), "et"), (("a", "b", "c"), (), "et"), (("b",), ("a", "a", "a"), "de")],
    [],
]


@pytest.fixture(params=[(), TAGS], ids=["no tags", "tags"])
def shards(request: pytest.FixtureRequest, tmp_path: Path) -> ShardedRows:
    """Five shards, of which three are empty."""
    tmp_path = tmp_path / "shards"
    for index, entries in enumerate(PARTS):
        shard_folder(tmp_path, index).mkdir(parents=True)
        write_shard(shard_folder(tmp_path, index), entries, LETTERS, LETTERS, request.param)
    index_shards(tmp_path, len(PARTS), LETTERS, LETTERS, request.param)
    return read_shards(tmp_path, LETTERS, LETTERS, request.param)


def test_shards_read_as_one_corpus(shards: ShardedRows, tmp_path: Path) -> None:
    """Also a copy in another process."""
    tags = TAGS if shards.header["tags"] else ()
    write_corpus(tmp_path / "corpus", [entry for part in PARTS for entry in part], LETTERS, LETTERS, tags)
    corpus = read_corpus(tmp_path / "corpus", LETTERS, LETTERS, tags)
    rows = np.array([4, 0, 3, 3, 1, 2])
    for copy in (shards, pickle.loads(pickle.dumps(shards))):
        assert len(copy) == 5
        for row, expected in zip(copy, corpus, strict=True):
            assert (row.row_index, row.tag) == (expected.row_index, expected.tag)
            assert (row.source.tolist(), row.target.tolist()) == (expected.source.tolist(), expected.target.tolist())
        assert copy.lengths(rows).tolist() == corpus.lengths(rows).tolist()
        for array, expected_array in zip(copy.rows_by_tag(), corpus.rows_by_tag(), strict=True):
            assert array.tolist() == expected_array.tolist()


def test_a_shard_is_mapped_when_a_row_of_it_is_read(shards: ShardedRows) -> None:
    """So a rank that reads no row of a shard needs none of its files."""
    shutil.rmtree(shard_folder(shards.folder, 3))
    assert shards[1].source.tolist() == LETTERS.encode("ba")
    with pytest.raises(UserError, match="000003"):
        shards[2]


def test_a_missing_shard_is_reported(shards: ShardedRows) -> None:
    """When the corpus is opened; the fingerprint is of the rows alone."""
    tags, fingerprint = shards.header["tags"], shards.fingerprint()
    moved = shards.folder.with_name("moved")
    shards.folder.rename(moved)
    assert read_shards(moved, LETTERS, LETTERS, tags).fingerprint() == fingerprint
    (shard_folder(moved, 1) / "target.ids").unlink()
    with pytest.raises(UserError, match=r"000001/target.ids: has 0 bytes, expected 10"):
        read_shards(moved, LETTERS, LETTERS, tags)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"a", b"a\nbb\n", b"a\n\nccc", b"a\nb\nc\nd\ne\nf\n", b"x" * 9 + b"\ny"]
)
@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("block", [1, 4, 1000])
def test_lines_start_where_they_do(
    content: bytes, step: int, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the file is cut into blocks."""
    monkeypatch.setattr("attnx.data.readers.lines.BLOCK_BYTES", block)
    (tmp_path / "file").write_bytes(content)
    lines = content.splitlines(keepends=True)
    offsets = np.cumsum([0, *map(len, lines)]).tolist()
    starts, end = line_starts(tmp_path / "file", step)
    assert end == LineStart(len(content), len(lines) + 1)
    assert starts == [LineStart(offsets[index], index + 1) for index in range(0, len(lines), step)]


SHARDS = [Shard(index, (FIRST_LINE,), index, 1, 1) for index in range(7)]


@pytest.mark.parametrize("processes", [1, 2, 9])
def test_results_are_in_the_order_of_shards(processes: int) -> None:
    """And all sentences are counted, in this process."""
    counted: list[int] = []

    def work(shard: Shard, progress: Progress) -> int:
        progress(shard.index)
        return shard.index**2

    results = work_on_shards(work, SHARDS, processes, counted.append)
    assert list(results) == [0, 1, 4, 9, 16, 25, 36]
    assert sum(counted) == 21
    assert not multiprocessing.active_children()


def stop(error: BaseException) -> Callable[[int], None]:
    def progress(_: int) -> None:
        raise error

    return progress


def test_an_interrupt_ends_the_processes() -> None:
    with pytest.raises(KeyboardInterrupt):
        list(work_on_shards(lambda shard, progress: progress(1), SHARDS, 2, stop(KeyboardInterrupt())))
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    "error", [UserError("a.tsv:3: no tab"), OSError(28, "No space left on device"), TypeError("x")]
)
def test_an_error_of_a_process_is_raised_here(error: Exception) -> None:
    def work(shard: Shard, progress: Progress) -> None:
        if shard.index == 3:
            raise error

    with pytest.raises(type(error)) as caught:
        list(work_on_shards(work, SHARDS, 2, stop(AssertionError())))
    assert str(caught.value) == str(error)
    assert not multiprocessing.active_children()


def test_processes_end_if_another_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without memory for it."""
    start, started = worker_processes._start, []

    def start_twice(*args: Any) -> worker_processes.Worker:
        if len(started) == 2:
            raise BlockingIOError("Resource temporarily unavailable")
        started.append(start(*args))
        return started[-1]

    monkeypatch.setattr(worker_processes, "_start", start_twice)
    with pytest.raises(BlockingIOError):
        list(work_on_shards(lambda shard, progress: os.kill(os.getpid(), signal.SIGSTOP), SHARDS, 3, print))
    assert not multiprocessing.active_children()


def test_a_process_that_is_killed_within_a_message_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def send_a_part(connection: Connection, message: object) -> None:
        os.write(connection.fileno(), struct.pack("!i", 100) + b"part")
        os._exit(1)

    monkeypatch.setattr(Connection, "send", send_a_part)
    with pytest.raises(ChildProcessError, match="was killed"):
        list(work_on_shards(lambda shard, progress: None, SHARDS, 2, print))


def test_a_process_that_ends_early_is_reported() -> None:
    def work(shard: Shard, progress: Progress) -> None:
        if shard.index == 3:
            os._exit(1)

    with pytest.raises(ChildProcessError, match="was killed"):
        list(work_on_shards(work, SHARDS, 2, stop(AssertionError())))
