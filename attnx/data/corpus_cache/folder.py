"""A folder that keeps an encoded training corpus, what it was made of, and what went with it, for later runs."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NamedTuple

from attnx.data.corpus_cache.unfinished_folder import UnfinishedStore, begin_store, sentences_of
from attnx.data.readers.parallel_corpus import Sentence
from attnx.errors import UserError
from attnx.files.bounded_files import MAX_LIST_BYTES, read_json

FORMAT: Final = 1
RECORD, HELD_OUT, ROWS = "made_of.json", "held_out.json", "rows"
JUDGED: Final = ("valid", "test")
ANEW: Final = "delete the folder or name another"


class CorpusMetadata(NamedTuple):
    """What is kept beside the rows.

    Attributes:
        tags: every tag of the rows.
        notes: lines about what was left out of the corpus.
        met: lines about what given parts have in common with it.
        held: the sentences of the parts that were held out, by part.
    """

    tags: list[str]
    notes: list[str]
    met: list[str]
    held: dict[str, list[Sentence]]


class Store:
    """The folder of a corpus.

    Args:
        folder: where it is, or is to be.
        files: those of the training part, and of ``valid`` and ``test`` unless they are held out of it.
        settings: what else decides which rows it has, by the name of the knob; as JSON has it.

    Raises:
        UserError: a file is missing, or cannot be read twice.
    """

    def __init__(self, folder: Path, files: dict[str, list[Path]], settings: dict[str, Any]) -> None:
        self.folder, self.train = folder, files["train"]
        if pipe := next((file for file in self.train if file.exists() and not (file.is_file() or file.is_dir())), None):
            raise UserError(f"{pipe}: is no plain file; with task.store the training files are read twice")
        self.judged = {part: states(files[part]) for part in JUDGED if part in files}
        parts = {part: "given" if part in files else "held out" for part in JUDGED}
        self.made_of = {"train": states(self.train), **settings, **parts}

    @property
    def rows(self) -> Path:
        """Where the encoded rows are."""
        return self.folder / ROWS

    def find(self) -> CorpusMetadata | None:
        """Read what was stored before; None if nothing was.

        Raises:
            UserError: the folder holds something else, or a corpus of other files or settings; or it cannot be written.
        """
        if not self.folder.exists() or (self.folder.is_dir() and not any(self.folder.iterdir())):
            _check_place(self.folder)
            return None
        record = self._read(RECORD)
        if record.get("format") != FORMAT:
            raise UserError(f"{self.folder}: has format {record.get('format')}, and this attnx reads {FORMAT}; {ANEW}")
        if other := self._differences(record["made_of"]):
            raise UserError(f"{self.folder}: was written from other files or settings: {', '.join(other)}; {ANEW}")
        met = record["met"]
        if record["judged"] != self.judged:
            met = [f"{self.folder} was written beside other valid or test files; what these share with it is not known"]
        parts = self._read(HELD_OUT)
        held = {part: sentences_of(listed) for part, listed in parts.items()}
        return CorpusMetadata(record["tags"], record["notes"], met, held)

    def _read(self, name: str) -> dict[str, Any]:
        try:
            found = read_json(self.folder / name, MAX_LIST_BYTES)
        except UserError as error:
            raise UserError(f"{self.folder}: holds no corpus that task.store wrote; {ANEW}") from error
        return found if isinstance(found, dict) else {}

    def _differences(self, there: dict[str, Any]) -> list[str]:
        """What is not as it was, in a few words each."""
        unlike = [name for name, value in self.made_of.items() if there.get(name) != value]
        if "train" in unlike:
            return ["task.train names other files, or they have changed"]
        return [f"task.{name} was {_shown(there.get(name))} and is {_shown(self.made_of[name])}" for name in unlike]

    def begin(self) -> AbstractContextManager[UnfinishedStore | None]:
        """Lend the folder to write the store in; see :func:`attnx.data.corpus_cache.unfinished_folder.begin_store`."""
        return begin_store(self.folder, {**self.made_of, "judged": self.judged})

    def finish(self, unfinished: UnfinishedStore, stored: CorpusMetadata) -> None:
        """Write what is to be kept beside the rows, and give the folder its name.

        Raises:
            UserError: the training files have changed since the store was begun.
        """
        if states(self.train) != self.made_of["train"]:
            raise UserError("task.train: a file has changed while it was read; start again")
        known = {"format": FORMAT, "made_of": self.made_of, "judged": self.judged}
        known |= {"tags": stored.tags, "notes": stored.notes, "met": stored.met}
        for name, content in ((RECORD, known), (HELD_OUT, stored.held)):
            (unfinished.path / name).write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")
        unfinished.finish(self.folder)


def states(files: Sequence[Path]) -> list[list[Any]]:
    """Name, size and time of change of each file, by which its content is known without reading it.

    Raises:
        UserError: one is missing.
    """
    found = []
    for file in files:
        if not file.exists():
            raise UserError(f"{file}: no such file")
        state = file.stat()
        found.append([file.name, state.st_size, state.st_mtime_ns])
    return found


def _check_place(folder: Path) -> None:
    """Tell now what else would be told when all has been read."""
    place = next(parent for parent in folder.absolute().parents if parent.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise UserError(f"{folder}: cannot be written: {place} is no folder that you may write to")


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).strip('"')
