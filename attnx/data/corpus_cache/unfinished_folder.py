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


class CorpusScan(NamedTuple):
    """Result of the first pass.

    Attributes:
        sample: training sentences drawn at random; empty once the tokenizers have learned from them.
        tags: every tag of the training sentences, sorted.
        overlap: training sources that are also in an evaluation part with files of its own.
        sentences: number of sentences in the training files, without blank ones.
        parts: the evaluation parts by name.
    """

    sample: list[Sentence]
    tags: list[str]
    overlap: set[str]
    sentences: int
    parts: dict[str, list[Sentence]]


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

    def read_scan(self) -> CorpusScan | None:
        """Read the result of the first pass; delete everything if it is incomplete or of another origin."""
        with suppress(UserError, KeyError, TypeError, ValueError):
            content = read_json(self.path / SCAN, MAX_LIST_BYTES)
            if content["origin"] == self.origin:
                parts = {part: parse_sentences(listed) for part, listed in content["parts"].items()}
                return CorpusScan([], content["tags"], set(content["overlap"]), content["sentences"], parts)
        for file in self.path.iterdir():
            shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()
        return None

    def write_scan(self, scan: CorpusScan) -> None:
        """Write the result of the first pass; the tokenizers must be saved already."""
        content = {"tags": scan.tags, "overlap": sorted(scan.overlap), "sentences": scan.sentences, "parts": scan.parts}
        write_json(self.path / SCAN, {"origin": self.origin, **content})

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


def parse_sentences(items: list[Any]) -> list[Sentence]:
    """Make sentences of JSON lists."""
    return [Sentence(source, tuple(references), tag) for source, references, tag in items]


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
