"""A training corpus larger than memory: written as text, and from there encoded, once, into a folder of the cache."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from rich.console import Console
from rich.progress import track

from attnx.data.dataset import PairDataset, Ragged
from attnx.data.paths import cache_folder
from attnx.data.permutation import Integers
from attnx.data.readers.parallel_corpus import Sentence, drop_blank, dropped_note, filter_by_length
from attnx.data.splits import SentenceHoldout
from attnx.data.text_pipeline import TextPipeline
from attnx.errors import USERS_MISTAKES, RunFailed, UserError
from attnx.files.atomic_files import fsync_files, write_json
from attnx.files.bounded_files import MAX_LIST_BYTES, read_json
from attnx.files.file_lock import lock_while
from attnx.files.printable import can_redraw, printable
from attnx.registry.python_parts import source_text

FORMAT: Final = 3
RECORD: Final = "corpus.json"
UNFINISHED: Final = ".unfinished"
TEXT: Final = "text.tsv"  # until it is encoded
SIDES, TAGS = ("source", "target"), "tags.npy"
# Sentences in memory: those that tokenizers learn from, and those that may be held out.
MAX_SAMPLE: Final = 1_000_000
MAX_HELD_OUT: Final = 100_000
ROWS_PER_PART: Final = 2**13  # in memory while the files are written that training reads

T = TypeVar("T")


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


class SentenceScan(NamedTuple):
    """What is known of the training sentences after reading them."""

    #: of those that are not held out; all of them, in order, if there are ``MAX_SAMPLE`` at most
    sample: list[Sentence]
    num_training: int  #: how many are not held out
    tags: list[str]  #: of those, sorted
    overlap: set[str]  #: their sources that are also in a split with its own files
    dropped: Counter[str]  #: how many were dropped, by reason


def scan_sentences(folder: Path, sentences: Iterable[Sentence], holdout: SentenceHoldout) -> SentenceScan:
    """Read the training sentences once: hold some out, and write the others to a file for :func:`encode_rows`.

    The sentences are normalized, so they have neither tabs nor line ends.
    """
    sources = {sentence.source for part in holdout.existing.values() for sentence in part or ()}
    tags, overlap, dropped = Counter[str](), set[str](), Counter[str]()
    with (folder / TEXT).open("w", encoding="utf-8", newline="\n") as file:

        def write_training() -> Iterator[Sentence]:
            for sentence in holdout.split_off(drop_blank(sentences, dropped)):
                tags[sentence.tag] += 1
                if sentence.source in sources:
                    overlap.add(sentence.source)
                file.write(f"{sentence.source}\t{sentence.references[0]}\t{sentence.tag}\n")
                yield sentence

        sample = reservoir_sample(write_training(), MAX_SAMPLE)
    return SentenceScan(sample, tags.total(), sorted(tags), overlap, dropped)


def reservoir_sample(items: Iterable[T], count: int, seed: int = 0) -> list[T]:
    """Draw ``count`` items uniformly; all of them, in order, if there are no more.

    Source: algorithm R of Vitter 1985, https://doi.org/10.1145/3147.3165
    """
    rng = random.Random(seed)
    sample: list[T] = []
    for index, item in enumerate(items):
        if index < count:
            sample.append(item)
        elif (slot := rng.randrange(index + 1)) < count:
            sample[slot] = item
    return sample


def encode_rows(
    folder: Path,
    scan: SentenceScan,
    texts: TextPipeline,
    tags: Sequence[str],
    max_length: int | None,
    max_ratio: float | None,
) -> tuple[PairDataset, str]:
    """Encode the file of :func:`scan_sentences` into rows; return them, and a note on all that was dropped.

    ``tags`` are all tags in the order of their index, none for data without tags; ``max_length`` and ``max_ratio`` are
    of :func:`attnx.data.readers.parallel_corpus.filter_by_length`.

    Raises:
        UserError: no row is left, or none of a tag.
    """
    dropped, console = scan.dropped.copy(), Console(stderr=True)
    with (folder / TEXT).open(encoding="utf-8", newline="\n") as file:
        lines = track(file, "encoding", scan.num_training, console=console, disable=not can_redraw(console))
        cells = (line.removesuffix("\n").split("\t") for line in lines)
        sentences = (Sentence(source, (target,), tag) for source, target, tag in cells)
        pairs = filter_by_length(map(texts.tokenize, sentences), dropped, max_length, max_ratio)
        source, target = texts.vocabularies()
        parts = iter(lambda: list(islice(pairs, ROWS_PER_PART)), [])
        row_tags = _write_arrays(
            folder,
            (PairDataset.from_pairs(part, source, target, True, tags) for part in parts),
            [np.uint16 if len(side) <= 2**16 else np.int32 for side in (source, target)],
        )
    (folder / TEXT).unlink()
    note = dropped_note(dropped, len(row_tags) + dropped.total())
    if not len(row_tags):
        raise UserError(f"no training pair is left: {note}")
    if tags:
        np.save(folder / TAGS, row_tags)
        present = set(np.unique(row_tags).tolist())
        if missing := [tag for index, tag in enumerate(tags) if index not in present]:
            raise UserError(f"no training pair of {missing[0]!r} is left: {note}")
    return open_rows(folder), note


def _write_arrays(folder: Path, parts: Iterable[PairDataset], types: Sequence[type]) -> Integers:
    """Write the ids of each side end to end, and where each row begins; return the tag of each row, 0 without tags."""
    lengths, tags = [np.zeros((0, 2), np.int64)], [np.zeros(0, np.int64)]
    with ExitStack() as stack:
        files = [stack.enter_context((folder / f"{side}.ids").open("wb")) for side in SIDES]
        for part in parts:
            for file, rows, kind in zip(files, (part.sources, part.targets), types, strict=True):
                file.write(rows.flat.astype(kind).tobytes())
            lengths.append(part.lengths(np.arange(len(part))))
            tags.append(part.tags.astype(np.int64))
    for side, side_lengths in zip(SIDES, np.concatenate(lengths).T, strict=True):
        np.save(folder / f"{side}.npy", np.append(0, np.cumsum(side_lengths)))
    return np.concatenate(tags)


def open_rows(folder: Path, known_fingerprint: str = "") -> PairDataset:
    """The rows of :func:`encode_rows`, mapped: their pages are in memory once for all processes of a machine."""
    sides = []
    for side in SIDES:
        file, offsets = folder / f"{side}.ids", np.asarray(np.load(folder / f"{side}.npy", mmap_mode="r"))
        is_wide = file.stat().st_size == 4 * offsets[-1]
        sides.append(Ragged(np.asarray(np.memmap(file, np.int32 if is_wide else np.uint16, mode="r")), offsets))
    tags = np.asarray(np.load(folder / TAGS, mmap_mode="r")) if (folder / TAGS).is_file() else None
    return PairDataset(sides[0], sides[1], tags, known_fingerprint=known_fingerprint)
