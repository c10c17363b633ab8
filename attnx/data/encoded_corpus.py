"""A training corpus larger than memory: it is encoded once, into a folder of the cache."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from attnx.data.dataset import PairDataset
from attnx.data.encode_sentences import open_rows
from attnx.data.paths import cache_folder
from attnx.data.readers.parallel_corpus import Sentence
from attnx.data.text_pipeline import TextPipeline
from attnx.errors import USERS_MISTAKES, RunFailed, UserError
from attnx.files.atomic_files import fsync_files, write_json
from attnx.files.bounded_files import MAX_LIST_BYTES, read_json
from attnx.files.file_lock import lock_while
from attnx.files.printable import printable
from attnx.registry.python_parts import source_text

FORMAT: Final = 2
RECORD: Final = "corpus.json"
UNFINISHED: Final = ".unfinished"


class EncodedCorpus(NamedTuple):
    """A training split in the cache."""

    rows: PairDataset  #: its rows
    tags: list[str]  #: of its sentences, sorted
    notes: list[str]  #: on what was dropped, and on sources that other splits have, too
    held_out: dict[str, list[Sentence]]  #: the sentences of the splits that are held out of it


class CorpusCache:
    """The folder of the cache for the files of each split, and the options that decide on the corpus, too.

    Raises:
        UserError: a file is missing.
    """

    def __init__(self, files: Mapping[str, Sequence[Path]], options: Mapping[str, Any]) -> None:
        self.files, self.states = files, _file_states(files)
        key = json.dumps([FORMAT, self.states, options], sort_keys=True)
        self.folder = cache_folder("corpora") / hashlib.sha256(key.encode()).hexdigest()[:16]

    def read(self, texts: TextPipeline) -> EncodedCorpus | None:
        """Read the corpus and its tokenizers; None if there is none, or it is damaged."""
        try:
            record = read_json(self.folder / RECORD, MAX_LIST_BYTES)
            held_out = {
                part: [Sentence(source, tuple(references), tag) for source, references, tag in sentences]
                for part, sentences in record["held_out"].items()
            }
            if record["sizes"] != _file_sizes(self.folder):
                return None
            rows = open_rows(self.folder, record["fingerprint"])
            texts.restore(self.folder)
            return EncodedCorpus(rows, record["tags"], record["notes"], held_out)
        except (UserError, OSError, KeyError, TypeError, ValueError, AttributeError):
            return None

    def write(self, texts: TextPipeline, fill: Callable[[Path], None]) -> EncodedCorpus:
        """Have a new folder filled and return the corpus; what another process writes meanwhile is waited for.

        Nothing stays of a folder whose filling fails; what a killed process left is deleted here.

        Raises:
            UserError: a file has changed meanwhile, or the folder cannot be written.
        """
        try:
            for folder in (self.folder.parent.parent, self.folder.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            waiting = f"attnx: {printable(str(self.folder))}: another process is writing it; waiting"
            with lock_while(self.folder.with_suffix(".lock"), lambda: print(waiting, file=sys.stderr)):
                corpus = self.read(texts)
                if corpus is None:
                    self._fill(fill)
                    corpus = self.read(texts)
        except OSError as error:
            kind = UserError if error.errno in USERS_MISTAKES else RunFailed  # such as a full disk
            advice = "name a folder for the cache with ATTNX_CACHE"
            raise kind(f"{self.folder}: cannot be written: {error.strerror or error}; {advice}") from error
        if corpus is None:
            raise RunFailed(f"{self.folder}: what was written there cannot be read; is another program writing there?")
        return corpus

    def _fill(self, fill: Callable[[Path], None]) -> None:
        for killed in self.folder.parent.glob(f"{self.folder.name}.*{UNFINISHED}"):
            shutil.rmtree(killed, ignore_errors=True)
        print(f"attnx: encoding the training corpus, once, into {printable(str(self.folder))}", file=sys.stderr)
        unfinished = Path(tempfile.mkdtemp(UNFINISHED, f"{self.folder.name}.", self.folder.parent))
        try:
            fill(unfinished)
            if _file_states(self.files) != self.states:
                raise UserError("task.train: a file has changed while it was read; start again")
            fsync_files(unfinished)
            shutil.rmtree(self.folder, ignore_errors=True)  # if it is damaged
            unfinished.rename(self.folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def write_record(
    folder: Path, rows: PairDataset, tags: Sequence[str], notes: Sequence[str], held_out: Mapping[str, list[Sentence]]
) -> None:
    """Complete a folder: write what a corpus has besides its rows and tokenizers, and the sizes of all files."""
    record = {"fingerprint": rows.fingerprint(), "tags": tags, "notes": notes, "held_out": held_out}
    write_json(folder / RECORD, {**record, "sizes": _file_sizes(folder)})


def _file_states(files: Mapping[str, Sequence[Path]]) -> dict[str, list[list[Any]]]:
    """Return path, size and modification time of each file, or raise a UserError for one that is missing."""
    if missing := next((path for paths in files.values() for path in paths if not path.exists()), None):
        raise UserError(f"{missing}: no such file")
    return {
        part: [[str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
        for part, paths in files.items()
    }


def _file_sizes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in folder.iterdir() if file.name != RECORD}


def hash_code(kind: type) -> str:
    """Return a hash of the file that defines a class, or where there is none, as in a notebook, of its source."""
    file = getattr(sys.modules[kind.__module__], "__file__", None)
    return hashlib.sha256(Path(file).read_bytes() if file else source_text(kind).encode()).hexdigest()
