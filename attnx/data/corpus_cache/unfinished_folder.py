"""The folder in which a store is written: a killed process leaves in it what the next one continues from."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from attnx.data.readers.parallel_corpus import Sentence
from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import MAX_LIST_BYTES, read_json
from attnx.files.printable import printable

SUFFIX = ".unfinished"
SCAN, PROGRESS = "scan.json", "encoding.json"


class CorpusMetadata(NamedTuple):
    """What a store holds besides its rows.

    Attributes:
        tags: every tag of the training sentences, sorted.
        sentences: number of sentences in the training files, without blank ones.
        overlap_notes: notes on training sources that are also in an evaluation part.
        held_out: the held-out parts by name.
        notes: notes on dropped pairs.
    """

    tags: list[str]
    sentences: int
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
        return cls(content["tags"], content["sentences"], content["overlap_notes"], held_out, content["notes"])


class EncodingProgress(NamedTuple):
    """Progress of the second pass: sentences read, pairs by tag, dropped ones by reason, numbers in each file."""

    sentences: int
    pairs: Counter[str]
    dropped: Counter[str]
    counts: dict[str, int]


class UnfinishedStore:
    """The content of the folder, written for the files and settings ``origin``; each file is written atomically."""

    def __init__(self, path: Path, origin: Mapping[str, Any]) -> None:
        self.path, self.origin = path, dict(origin)

    def read_metadata(self) -> CorpusMetadata | None:
        """Read the result of the first pass; delete everything if it is incomplete or of another origin."""
        with suppress(UserError, KeyError, TypeError, ValueError):
            content = read_json(self.path / SCAN, MAX_LIST_BYTES)
            if content["origin"] == self.origin:
                return CorpusMetadata.parse(content)
        for file in self.path.iterdir():
            shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()
        return None

    def write_metadata(self, metadata: CorpusMetadata) -> None:
        """Write the result of the first pass; the tokenizers must be saved already."""
        write_json(self.path / SCAN, {"origin": self.origin, **metadata._asdict()})

    def read_progress(self) -> EncodingProgress:
        """Read the progress of the second pass; its start if there is none."""
        try:
            content = read_json(self.path / PROGRESS)
            pairs, dropped = Counter(content["pairs"]), Counter(content["dropped"])
            return EncodingProgress(content["sentences"], pairs, dropped, content["counts"])
        except (UserError, KeyError, TypeError):
            return EncodingProgress(0, Counter(), Counter(), {})

    def write_progress(self, progress: EncodingProgress) -> None:
        """Write the progress of the second pass; the rows must be on the disk already."""
        write_json(self.path / PROGRESS, progress._asdict())

    def finish(self, folder: Path) -> None:
        """Delete the progress files and rename the folder."""
        for name in (SCAN, PROGRESS):
            (self.path / name).unlink(missing_ok=True)
        self.path.rename(folder)


@contextmanager
def open_unfinished(folder: Path, origin: Mapping[str, Any]) -> Iterator[UnfinishedStore | None]:
    """Lock the unfinished folder of a store; None if another process has finished the store.

    One process at a time holds the lock, others wait. The folder stays if the block is interrupted, and is deleted if
    it fails with a UserError.

    Raises:
        UserError: the folder cannot be written.
    """
    path = folder.absolute().with_name(folder.name + SUFFIX)
    new_parents = [parent for parent in path.parents if not parent.exists()]
    try:
        with _lock(path, folder) as is_free:
            yield UnfinishedStore(path, origin) if is_free else None
    except BaseException as error:
        if isinstance(error, UserError) or not (path / SCAN).is_file():  # nothing to continue from
            shutil.rmtree(path, ignore_errors=True)
            for parent in new_parents:  # the innermost first; those that hold something stay
                with suppress(OSError):
                    parent.rmdir()
        if isinstance(error, OSError):
            raise UserError(f"{folder}: cannot be written: {error}; then run the same command again") from error
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
            if path.is_dir() and os.path.samestat(os.fstat(descriptor), path.stat()):
                yield True
                return
            if folder.is_dir():  # finished and renamed
                yield False
                return
        finally:
            os.close(descriptor)
