"""The folder in which a store is written, so that a process that is killed leaves what the next one goes on from."""

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
SURVEY, ENCODED = "survey.json", "encoded.json"


class Survey(NamedTuple):
    """What the first reading finds.

    Attributes:
        sample: sentences to train on, drawn by chance, in the order of the data if they are all of them; empty where
            the tokenizers have learned from them.
        tags: every tag of the sentences to train on, sorted.
        known: sources to train on that are also those of a given part.
        sentences: how many the training files hold, but for blank ones.
        parts: the other parts, by name.
    """

    sample: list[Sentence]
    tags: list[str]
    known: set[str]
    sentences: int
    parts: dict[str, list[Sentence]]


class Encoded(NamedTuple):
    """How far the second reading is.

    Attributes:
        sentences: how many of the training files were read.
        kept: the pairs that were written, by tag.
        dropped: those that were left out, by reason.
        counts: how many numbers each file of rows holds.
    """

    sentences: int
    kept: Counter[str]
    dropped: Counter[str]
    counts: dict[str, int]


class UnfinishedStore:
    """What lies in the folder; a file is there whole or not at all.

    Args:
        path: the folder.
        made_of: what the store is made of; what was left by one of anything else is thrown away.
    """

    def __init__(self, path: Path, made_of: Mapping[str, Any]) -> None:
        self.path, self.made_of = path, dict(made_of)

    def read_survey(self) -> Survey | None:
        """What the first reading found, if it came to its end."""
        try:
            found = read_json(self.path / SURVEY, MAX_LIST_BYTES)
            if found["made_of"] == self.made_of:
                parts = {part: sentences_of(listed) for part, listed in found["parts"].items()}
                return Survey([], found["tags"], set(found["known"]), found["sentences"], parts)
        except (UserError, KeyError, TypeError, ValueError):
            pass
        self.clear()
        return None

    def write_survey(self, survey: Survey) -> None:
        """Keep it; the tokenizers must lie beside it already."""
        kept = {
            "tags": survey.tags,
            "known": sorted(survey.known),
            "sentences": survey.sentences,
            "parts": survey.parts,
        }
        write_json(self.path / SURVEY, {"made_of": self.made_of, **kept})

    def read_encoded(self) -> Encoded:
        """How far the second reading is; at its beginning if that is not known."""
        try:
            found = read_json(self.path / ENCODED)
            return Encoded(found["sentences"], Counter(found["kept"]), Counter(found["dropped"]), found["counts"])
        except (UserError, KeyError, TypeError):
            return Encoded(0, Counter(), Counter(), {})

    def write_encoded(self, encoded: Encoded) -> None:
        """Keep that; the rows must be on the disk already."""
        write_json(self.path / ENCODED, encoded._asdict())

    def clear(self) -> None:
        """Throw away all that it holds."""
        for file in self.path.iterdir():
            shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()

    def finish(self, folder: Path) -> None:
        """Give it its name, without what only an unfinished one needs."""
        for name in (SURVEY, ENCODED):
            (self.path / name).unlink(missing_ok=True)
        self.path.rename(folder)


def sentences_of(listed: list[Any]) -> list[Sentence]:
    """Sentences as JSON has them."""
    return [Sentence(source, tuple(references), tag) for source, references, tag in listed]


@contextmanager
def begin_store(folder: Path, made_of: Mapping[str, Any]) -> Iterator[UnfinishedStore | None]:
    """Lend the folder to write a store in, with what was left in it; None if another process has finished the store.

    One process at a time has it; another waits. It stays where the block is cut off, and is removed where what was
    asked for cannot be done.

    Args:
        folder: the store's, which must not exist, unless it is empty.
        made_of: see :class:`UnfinishedStore`.

    Raises:
        UserError: the folder cannot be written.
    """
    path = folder.absolute().with_name(folder.name + SUFFIX)
    made = [parent for parent in path.parents if not parent.exists()]
    try:
        with _locked(path, folder) as is_free:
            yield UnfinishedStore(path, made_of) if is_free else None
    except BaseException as error:
        if isinstance(error, UserError) or not (path / SURVEY).is_file():  # nothing that could be gone on from
            _remove(path, made)
        if isinstance(error, OSError):
            raise UserError(f"{folder}: cannot be written: {error}; then the same again") from error
        raise


@contextmanager
def _locked(path: Path, folder: Path) -> Iterator[bool]:
    """Hold the folder ``path`` alone; False if ``folder`` was finished while another process held it."""
    while True:
        path.mkdir(parents=True, exist_ok=True)
        place = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            try:
                fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"attnx: {printable(str(folder))}: another process is writing it; waiting", file=sys.stderr)
                fcntl.flock(place, fcntl.LOCK_EX)
            if path.is_dir() and os.path.samestat(os.fstat(place), path.stat()):
                yield True
                return
            if folder.is_dir():  # it was finished, and has another name now
                yield False
                return
        finally:
            os.close(place)


def _remove(path: Path, made: list[Path]) -> None:
    shutil.rmtree(path, ignore_errors=True)
    for parent in made:  # the innermost first; those that hold something stay
        with suppress(OSError):
            parent.rmdir()
