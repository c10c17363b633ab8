"""The folder of an encoded training corpus: its rows, what it was made from, and the held-out sentences."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from attnx.data.corpus_cache.unfinished_folder import CorpusMetadata, UnfinishedStore
from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import MAX_LIST_BYTES, read_mapping

FORMAT: Final = 3
ORIGIN, ROWS = "origin.json", "rows"
EVALUATION_PARTS: Final = ("valid", "test")
USE_ANOTHER_FOLDER: Final = "delete the folder or name another"


class CorpusStore:
    """A folder with an encoded training corpus, which later runs read instead of the training files.

    Args:
        folder: the store's folder, which need not exist.
        files: the training files, and those of ``valid`` and ``test`` unless these are held out.
        settings: every other option that decides on the rows, as JSON values.

    Raises:
        UserError: a file is missing, or cannot be read twice.
    """

    def __init__(self, folder: Path, files: dict[str, list[Path]], settings: dict[str, Any]) -> None:
        self.folder, self.train = folder, files["train"]
        if pipe := next((file for file in self.train if file.exists() and not (file.is_file() or file.is_dir())), None):
            raise UserError(f"{pipe}: is not a plain file; task.store reads the training files twice")
        self.evaluation_files = {part: file_states(files[part]) for part in EVALUATION_PARTS if part in files}
        parts = {part: "given" if part in files else "held out" for part in EVALUATION_PARTS}
        self.origin = {"train": file_states(self.train), **settings, **parts}

    def find(self) -> CorpusMetadata | None:
        """Read the metadata of a finished store; None if there is none.

        Raises:
            UserError: the folder holds something else, or was written from other files or settings; or it cannot be
                written.
        """
        if not self.folder.exists() or (self.folder.is_dir() and not any(self.folder.iterdir())):
            _check_writable(self.folder)
            return None
        try:
            record = read_mapping(self.folder / ORIGIN, MAX_LIST_BYTES)
        except UserError:
            record = {}
        if not record:
            raise UserError(f"{self.folder}: holds no corpus that task.store wrote; {USE_ANOTHER_FOLDER}")
        if record.get("format") != FORMAT:
            version = record.get("format")
            raise UserError(f"{self.folder}: has format {version}, but this attnx reads {FORMAT}; {USE_ANOTHER_FOLDER}")
        if changes := self._changes(record["origin"]):
            raise UserError(f"{self.folder}: was written from other files or settings: {changes}; {USE_ANOTHER_FOLDER}")
        metadata = CorpusMetadata.parse(record)
        if record["evaluation_files"] == self.evaluation_files:
            return metadata
        unknown = f"{self.folder} was written with other valid or test files; the overlap with these is unknown"
        return metadata._replace(overlap_notes=[unknown])

    def _changes(self, written: dict[str, Any]) -> str:
        """Describe the differences from what the store was written from."""
        pairs = {name: (written.get(name), value) for name, value in self.origin.items()}
        changed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
        if "train" in changed:
            return "task.train names other files, or they have changed"
        return ", ".join(f"task.{name} was {_format(a)} and is {_format(b)}" for name, (a, b) in changed.items())

    def finish(self, unfinished: UnfinishedStore, metadata: CorpusMetadata) -> None:
        """Write the metadata and rename the unfinished folder.

        Raises:
            UserError: the training files have changed since the store was begun.
        """
        if file_states(self.train) != self.origin["train"]:
            raise UserError("task.train: a file has changed while it was read; start again")
        record = {"format": FORMAT, "origin": self.origin, "evaluation_files": self.evaluation_files}
        write_json(unfinished.path / ORIGIN, {**record, **metadata._asdict()})
        unfinished.finish(self.folder)


def file_states(files: Sequence[Path]) -> list[list[Any]]:
    """Return name, size and modification time of each file, which stand for its content.

    Raises:
        UserError: one is missing.
    """
    if missing := next((file for file in files if not file.exists()), None):
        raise UserError(f"{missing}: no such file")
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]


def _check_writable(folder: Path) -> None:
    """Fail before the files are read, not after."""
    parent = next(parent for parent in folder.absolute().parents if parent.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise UserError(f"{folder}: cannot be written: {parent} is not a folder that you may write to")


def _format(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).strip('"')
