"""The folder of a cache: one process writes it, and it is complete and on the disk, or continued, or gone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from attnx.data.corpus_cache import folder as folder_module
from attnx.data.corpus_cache.folder import (
    ORIGIN,
    ROWS,
    SCAN,
    CorpusMetadata,
    ShardCounts,
    UnfinishedCache,
    open_unfinished,
)
from attnx.errors import UserError
from attnx.files.atomic_files import write_json

CACHE, UNFINISHED = Path("corpus"), Path("corpus.unfinished")
SECONDS = 60  # for another thread to come to its lock


@pytest.fixture(autouse=True)
def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(unfinished: UnfinishedCache | None) -> None:
    """All that a cache has, if only for its form."""
    assert unfinished is not None
    (unfinished.path / "source.tokenizer").write_text("a")
    unfinished.write_metadata(CorpusMetadata([], [], {}, []))
    with unfinished.new_shard(0, ShardCounts()) as shard:
        (shard / "source.ids").write_bytes(b"12")
    (unfinished.path / ROWS / "corpus.json").write_text("{}")
    write_json(unfinished.path / ORIGIN, {})
    unfinished.finish(CACHE)


class Waiter:
    """Another writer, in a thread: whether it found the cache finished, and what it saw of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.result: list[UnfinishedCache | None] = []
        self.thread = threading.Thread(target=self._write)
        self.waits = threading.Event()
        lock = fcntl.flock

        def watched(descriptor: int, operation: int) -> None:
            if operation == fcntl.LOCK_EX:
                self.waits.set()
            lock(descriptor, operation)

        monkeypatch.setattr(fcntl, "flock", watched)

    def start(self) -> None:
        """Start it, and return when it waits."""
        self.thread.start()
        assert self.waits.wait(timeout=SECONDS)

    def _write(self) -> None:
        with open_unfinished(CACHE, {}) as unfinished:
            self.result.append(unfinished)
            if unfinished is not None:
                write(unfinished)


def test_another_writer_is_awaited(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Who has waited finds the cache."""
    waiter = Waiter(monkeypatch)
    with open_unfinished(CACHE, {}) as unfinished:
        waiter.start()
        write(unfinished)
    waiter.thread.join()
    assert capsys.readouterr().err == "attnx: corpus: another process is writing it; waiting\n"
    assert waiter.result == [None]


def test_who_waits_for_a_writer_that_fails_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Into a folder that was there and empty, too."""
    CACHE.mkdir()
    waiter = Waiter(monkeypatch)
    with contextlib.suppress(UserError), open_unfinished(CACHE, {}):
        waiter.start()
        raise UserError("wrong")
    waiter.thread.join()
    assert (CACHE / ORIGIN).is_file()
    assert not UNFINISHED.exists()


def test_a_cache_finished_before_the_lock_is_not_written_again() -> None:
    with open_unfinished(CACHE, {}) as unfinished:
        write(unfinished)
    with open_unfinished(CACHE, {}) as unfinished:
        assert unfinished is None
    assert not UNFINISHED.exists()


def test_an_interrupted_waiter_leaves_the_writer_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before there is anything to continue from."""
    lock = fcntl.flock

    def interrupted(descriptor: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX:
            raise KeyboardInterrupt
        lock(descriptor, operation)

    with open_unfinished(CACHE, {}) as unfinished:
        monkeypatch.setattr(fcntl, "flock", interrupted)
        with pytest.raises(KeyboardInterrupt), open_unfinished(CACHE, {}):
            pytest.fail("it was locked")
        write(unfinished)


def test_a_folder_is_deleted_while_it_is_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else another process begins to write into it."""
    delete, is_locked = shutil.rmtree, []

    def watched(path: Path, **options: Any) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_locked.append(True)
        os.close(descriptor)
        delete(path, **options)

    monkeypatch.setattr(folder_module.shutil, "rmtree", watched)
    with pytest.raises(UserError, match="wrong"), open_unfinished(CACHE, {}):
        raise UserError("wrong")
    assert is_locked == [True]
    assert not UNFINISHED.exists()


def test_what_is_renamed_is_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file and every folder's entries, so that a machine that loses power has a complete cache or none."""
    flush, rename = os.fsync, Path.rename
    flushed: set[int] = set()
    renamed: list[str] = []

    def watch_flush(descriptor: int) -> None:
        flush(descriptor)
        flushed.add(os.fstat(descriptor).st_ino)

    def watch_rename(path: Path, target: Path) -> Path:
        renamed.append(path.name)
        assert not [item for item in (path, *path.rglob("*")) if item.stat().st_ino not in flushed]
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", watch_flush)
    monkeypatch.setattr(Path, "rename", watch_rename)
    with open_unfinished(CACHE, {}) as unfinished:
        write(unfinished)
    assert renamed == ["000000.partial", "corpus.unfinished"]


def test_an_interrupt_at_the_end_leaves_what_to_continue_from(monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        if path.name == UNFINISHED.name:
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), open_unfinished(CACHE, {}) as unfinished:
        write(unfinished)
    assert (UNFINISHED / SCAN).is_file()


@pytest.mark.parametrize("has_target", [False, True])
def test_a_link_names_the_folder(has_target: bool) -> None:
    """To a folder that is empty, or is not there: the cache is written beside it."""
    Path("disk").mkdir()
    if has_target:
        Path("disk/large").mkdir()
    CACHE.symlink_to("disk/large")
    with open_unfinished(CACHE, {}) as unfinished:
        assert unfinished is not None
        assert unfinished.path.parent == Path("disk").resolve()
        write(unfinished)
    assert CACHE.is_symlink()
    assert sorted(path.name for path in Path("disk/large").iterdir()) == [ORIGIN, ROWS, "source.tokenizer"]
