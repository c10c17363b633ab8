"""The folder of an encoded training corpus, and the one in which it is written.

A killed process leaves in the latter what the next one continues from.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from attnx.data.corpus_cache.shards import shard_folder
from attnx.data.filters import dropped_note
from attnx.data.readers.parallel_corpus import Sentence
from attnx.errors import USERS_MISTAKES, RunFailed, UserError
from attnx.files.atomic_files import PARTIAL, fsync_files, write_json
from attnx.files.bounded_files import MAX_LIST_BYTES, read_json, read_mapping
from attnx.files.printable import printable

FORMAT: Final = 4
ORIGIN, ROWS = "origin.json", "rows"
UNFINISHED_SUFFIX: Final = ".unfinished"
SCAN, COUNTS = "scan.json", "counts.json"
EVALUATION_SPLITS: Final = ("valid", "test")
USE_ANOTHER_FOLDER: Final = "delete the folder or name another"


class CorpusMetadata(NamedTuple):
    """What a cache holds besides its rows; ``notes`` are on dropped pairs."""

    tags: list[str]
    overlap_notes: list[str]
    held_out: dict[str, list[Sentence]]
    notes: list[str]

    @classmethod
    def parse(cls, content: Mapping[str, Any]) -> CorpusMetadata:
        """Read the metadata among the keys of a JSON mapping."""
        held_out = {
            part: [Sentence(source, tuple(references), tag) for source, references, tag in items]
            for part, items in content["held_out"].items()
        }
        return cls(content["tags"], content["overlap_notes"], held_out, content["notes"])


@dataclass
class ShardCounts:
    """Pairs of a shard by tag, and dropped ones by reason."""

    pairs: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)

    def __add__(self, counts: ShardCounts) -> ShardCounts:
        """Add those of another shard."""
        return ShardCounts(self.pairs + counts.pairs, self.dropped + counts.dropped)

    def total(self) -> int:
        """Return the number of all pairs."""
        return self.pairs.total() + self.dropped.total()

    def note(self) -> str:
        """Return a note on the dropped pairs, if any."""
        return dropped_note(self.dropped, self.total())


class UnfinishedCache:
    """The content of the folder, written for the files and settings ``origin``; each file is written atomically."""

    def __init__(self, path: Path, origin: Mapping[str, Any]) -> None:
        self.path, self.origin = path, dict(origin)

    def read_metadata(self) -> CorpusMetadata | None:
        """Read the result of the first pass; delete everything if it is incomplete or of another origin."""
        with suppress(UserError, KeyError, TypeError, ValueError):
            content = read_json(self.path / SCAN, MAX_LIST_BYTES)
            if (content["format"], content["origin"]) == (FORMAT, self.origin):
                return CorpusMetadata.parse(content)
        for file in self.path.iterdir():
            shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()
        return None

    def write_metadata(self, metadata: CorpusMetadata) -> None:
        """Write the result of the first pass; the tokenizers must be saved already."""
        fsync_files(self.path)
        write_json(self.path / SCAN, {"format": FORMAT, "origin": self.origin, **metadata._asdict()})

    def read_counts(self, num_shards: int) -> dict[int, ShardCounts]:
        """Read the counts of the shards that are complete, by their indices."""
        counts = {}
        for index in range(num_shards):
            path = shard_folder(self.path / ROWS, index) / COUNTS
            if path.is_file():
                content = read_json(path)
                counts[index] = ShardCounts(Counter(content["pairs"]), Counter(content["dropped"]))
        return counts

    @contextmanager
    def new_shard(self, index: int, counts: ShardCounts) -> Iterator[Path]:
        """Yield a folder to fill, which becomes a shard, with ``counts``, if the block ends without an exception."""
        folder = shard_folder(self.path / ROWS, index)
        partial = folder.with_suffix(PARTIAL)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        yield partial
        write_json(partial / COUNTS, vars(counts))
        fsync_files(partial)
        partial.rename(folder)

    def finish(self, folder: Path) -> None:
        """Flush what no shard holds, rename the folder, and delete the result of the first pass.

        In this order, since without that result an interrupted process has nothing to continue from.
        """
        fsync_files(self.path / ROWS)
        fsync_files(self.path)
        self.path.rename(folder.resolve())  # a link stays and names it
        (folder / SCAN).unlink()


@contextmanager
def open_unfinished(folder: Path, origin: Mapping[str, Any]) -> Iterator[UnfinishedCache | None]:
    """Lock the unfinished folder of a cache; None if another process has finished the cache.

    One process at a time holds the lock, others wait. The folder stays if the block is interrupted, and is deleted if
    it fails with a UserError, as it does if the folder cannot be written.
    """
    target = folder.resolve()
    path = target.with_name(target.name + UNFINISHED_SUFFIX)
    new_parents = [parent for parent in path.parents if not parent.exists()]
    try:
        with _lock(path, folder) as is_free:
            if not is_free:
                yield None
                return
            with _discard_useless(path):  # while it is locked
                yield UnfinishedCache(path, origin)
    except BaseException as error:
        for parent in new_parents:  # the innermost first; those that hold something stay
            with suppress(OSError):
                parent.rmdir()
        if isinstance(error, OSError):
            kind = UserError if error.errno in USERS_MISTAKES else RunFailed  # such as a full disk
            raise kind(f"{folder}: cannot be written: {error}; then run the same command again") from error
        raise


@contextmanager
def _discard_useless(path: Path) -> Iterator[None]:
    """Delete a folder if the block fails and leaves nothing to continue from."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, UserError) or not (path / SCAN).is_file():
            shutil.rmtree(path, ignore_errors=True)
        raise


@contextmanager
def _lock(path: Path, folder: Path) -> Iterator[bool]:
    """Lock the folder ``path``; False if another process meanwhile finished ``folder``."""
    while True:
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"attnx: {printable(str(folder))}: another process is writing it; waiting", file=sys.stderr)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if (folder / ORIGIN).is_file():
                with suppress(OSError):  # if it was not renamed, it was made just now
                    path.rmdir()
                yield False
                return
            if path.is_dir() and os.path.samestat(os.fstat(descriptor), path.stat()):
                yield True
                return
        finally:
            os.close(descriptor)


class CorpusCache:
    """A folder with an encoded training corpus, which later runs read instead of the training files.

    ``files`` are those of each part that is not held out, ``settings`` every other option that decides on the rows.
    Files that are missing or cannot be read twice are UserErrors.
    """

    def __init__(self, folder: Path, files: dict[str, list[Path]], settings: dict[str, Any]) -> None:
        self.folder, self.train = folder, files["train"]
        if pipe := next((file for file in self.train if file.exists() and not (file.is_file() or file.is_dir())), None):
            raise UserError(f"{pipe}: is not a plain file; task.cache_folder reads the training files twice")
        self.evaluation_files = {part: file_states(files[part]) for part in EVALUATION_SPLITS if part in files}
        parts = {part: "given" if part in files else "held out" for part in EVALUATION_SPLITS}
        self.origin = {"train": file_states(self.train), **settings, **parts}

    def find(self) -> CorpusMetadata | None:
        """Read the metadata of a finished cache, or None; a folder of something else is a UserError."""
        if not self.folder.exists() or (self.folder.is_dir() and not any(self.folder.iterdir())):
            return None
        record: dict[str, Any] = {}
        with suppress(UserError):
            record = read_mapping(self.folder / ORIGIN, MAX_LIST_BYTES)
        if not record:
            raise UserError(f"{self.folder}: holds no corpus that task.cache_folder wrote; {USE_ANOTHER_FOLDER}")
        if (version := record.get("format")) != FORMAT:
            raise UserError(f"{self.folder}: has format {version}, but this attnx reads {FORMAT}; {USE_ANOTHER_FOLDER}")
        try:
            changes, evaluation_files = self._changes(record["origin"]), record["evaluation_files"]
            metadata = CorpusMetadata.parse(record)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{self.folder / ORIGIN}: is damaged; {USE_ANOTHER_FOLDER}") from error
        if changes:
            raise UserError(f"{self.folder}: was written from other files or settings: {changes}; {USE_ANOTHER_FOLDER}")
        if evaluation_files == self.evaluation_files:
            return metadata
        unknown = f"{self.folder} was written with other valid or test files; the overlap with these is unknown"
        return metadata._replace(overlap_notes=[unknown])

    def _changes(self, written: dict[str, Any]) -> str:
        """Describe the differences from what the cache was written from."""
        pairs = {name: (written.get(name), value) for name, value in self.origin.items()}
        changed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
        if "train" in changed:
            return "task.train names other files, or they have changed"
        return ", ".join(f"task.{name} was {_format(a)} and is {_format(b)}" for name, (a, b) in changed.items())

    def finish(self, unfinished: UnfinishedCache, metadata: CorpusMetadata) -> None:
        """Write the metadata and rename the folder; a UserError if the training files have changed since the start."""
        if file_states(self.train) != self.origin["train"]:
            raise UserError("task.train: a file has changed while it was read; start again")
        record = {"format": FORMAT, "origin": self.origin, "evaluation_files": self.evaluation_files}
        write_json(unfinished.path / ORIGIN, {**record, **metadata._asdict()})
        unfinished.finish(self.folder)


def file_states(files: Sequence[Path]) -> list[list[Any]]:
    """Return name, size and modification time of each file, or raise a UserError for one that is missing."""
    if missing := next((file for file in files if not file.exists()), None):
        raise UserError(f"{missing}: no such file")
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]


def _format(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).strip('"')
