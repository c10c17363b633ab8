"""Encoding the sentences of a corpus larger than memory, by Hugging Face's `datasets`."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from rich.console import Console

from attnx.data.dataset import PairDataset, Ragged
from attnx.data.permutation import Integers
from attnx.data.readers.hugging_face import import_datasets
from attnx.data.readers.parallel_corpus import Sentence, drop_blank, drop_reason, dropped_note
from attnx.data.splits import SentenceHoldout
from attnx.data.text_pipeline import TextPipeline
from attnx.errors import RunFailed, UserError, exception_chain
from attnx.files.printable import can_redraw
from attnx.files.process import available_cores, watch_parent
from attnx.registry.dependencies import require_package

NEEDS_DATASETS: Final = "task.train, too large for memory,"
TEXT, ENCODED = "text.arrow", "encoded.arrow"
SIDES, TAGS = ("source", "target"), "tags.npy"
DROPPED: Final = "dropped"
# Sentences in memory: those that tokenizers learn from, and those that may be held out.
MAX_SAMPLE: Final = 1_000_000
MAX_HELD_OUT: Final = 100_000
# So that the longest lines of a batch, 1 MiB each, fit into a column of Arrow, which has 2 GiB.
ROWS_PER_BATCH: Final = 2_000
ROWS_PER_PROCESS: Final = 20_000  # for less, a process is not worth its start
ROWS_PER_PART: Final = 2**16  # in memory while the files are written that training reads

T = TypeVar("T")


class SentenceScan(NamedTuple):
    """What is known of the training sentences after reading them."""

    #: of those that are not held out; all of them, in order, if there are ``MAX_SAMPLE`` at most
    sample: list[Sentence]
    tags: list[str]  #: of those, sorted
    overlap: set[str]  #: their sources that are also in a split with its own files
    dropped: Counter[str]  #: how many were dropped, by reason


def scan_sentences(folder: Path, sentences: Iterable[Sentence], holdout: SentenceHoldout) -> SentenceScan:
    """Read the training sentences once: hold some out, and write the others to a file for :func:`encode_rows`."""
    pyarrow: Any = require_package("pyarrow", "datasets", NEEDS_DATASETS)
    sources = {sentence.source for part in holdout.existing.values() for sentence in part or ()}
    tags, overlap, dropped = set[str](), set[str](), Counter[str]()

    def write_training(write: Callable[[Any], None]) -> Iterator[Sentence]:
        stream = holdout.split_off(drop_blank(sentences, dropped))
        while batch := list(islice(stream, ROWS_PER_BATCH)):
            tags.update(sentence.tag for sentence in batch)
            overlap.update(sources.intersection(sentence.source for sentence in batch))
            rows = [(sentence.source, sentence.references[0], sentence.tag) for sentence in batch]
            write(pyarrow.table(list(map(list, zip(*rows, strict=True))), schema=schema))
            yield from batch

    schema = pyarrow.schema([(name, pyarrow.string()) for name in ("source", "target", "tag")])
    with _arrow_file(folder / TEXT, schema) as write:
        sample = reservoir_sample(write_training(write), MAX_SAMPLE)
    return SentenceScan(sample, sorted(tags), overlap, dropped)


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


class RowEncoder:
    """Tokenizes and encodes sentences by trained tokenizers; processes of `datasets.map` get a copy.

    ``tags`` are all tags in the order of their index, none for data without tags; ``max_length`` and ``max_ratio`` are
    of :func:`attnx.data.readers.parallel_corpus.filter_by_length`.
    """

    def __init__(
        self, texts: TextPipeline, tags: Sequence[str], max_length: int | None, max_ratio: float | None
    ) -> None:
        self.texts, self.max_length, self.max_ratio = texts, max_length, max_ratio
        self.vocabularies = texts.vocabularies()
        self.tag_indices = {tag: index for index, tag in enumerate(tags)}

    def schema(self) -> Any:
        """Return the names and types of the columns of rows."""
        pyarrow: Any = require_package("pyarrow", "datasets", NEEDS_DATASETS)
        ids = [pyarrow.uint16() if len(side) <= 2**16 else pyarrow.int32() for side in self.vocabularies]
        columns = [(name, pyarrow.list_(kind)) for name, kind in zip(SIDES, ids, strict=True)]
        return pyarrow.schema(columns + ([("tag", pyarrow.int64())] if self.tag_indices else []))

    def __call__(self, sources: list[str], targets: list[str], tags: list[str]) -> Any:
        """Return a table of rows, and why a sentence is dropped; the ids of such a row are empty."""
        pyarrow: Any = require_package("pyarrow", "datasets", NEEDS_DATASETS)
        columns: dict[str, list[Any]] = {"source": [], "target": [], DROPPED: []}
        for source, target in zip(sources, targets, strict=True):
            pair = self.texts.tokenize(Sentence(source, (target,)))
            reason = drop_reason(pair, self.max_length, self.max_ratio)
            columns[DROPPED].append(reason)
            columns["source"].append([] if reason else self.vocabularies[0].encode(pair.source))
            columns["target"].append([] if reason else self.vocabularies[1].encode(pair.references[0], end=True))
        if self.tag_indices:
            columns["tag"] = [self.tag_indices[tag] for tag in tags]
        return pyarrow.table(columns, self.schema().append(pyarrow.field(DROPPED, pyarrow.string())))


def encode_rows(folder: Path, encoder: RowEncoder, dropped: Counter[str]) -> tuple[PairDataset, str]:
    """Encode the file of :func:`scan_sentences` into rows; return them, and a note on all that was dropped.

    Several processes tokenize; their number changes no byte. One that is killed is a RunFailed.

    Raises:
        UserError: no row is left, or none of a tag.
        RunFailed: one of the processes was killed.
    """
    datasets = import_datasets(NEEDS_DATASETS)
    encoded = _map(datasets, datasets.Dataset.from_file(str(folder / TEXT)), encoder, folder / ENCODED)
    dropped = dropped.copy()
    tags = _write_arrays(folder, encoded, dropped)
    for file in folder.glob("*.arrow"):
        file.unlink()
    count = len(tags)
    note = dropped_note(dropped, count + dropped.total())
    if not count:
        raise UserError(f"no training pair is left: {note}")
    if encoder.tag_indices:
        np.save(folder / TAGS, tags)
        present = set(np.unique(tags).tolist())
        if missing := [tag for tag, index in encoder.tag_indices.items() if index not in present]:
            raise UserError(f"no training pair of {missing[0]!r} is left: {note}")
    return open_rows(folder), note


def _write_arrays(folder: Path, encoded: Any, dropped: Counter[str]) -> Integers:
    """Write the ids of each side end to end, and where each row begins; return the tag of each row, 0 without tags."""
    pyarrow: Any = require_package("pyarrow.compute", "datasets", NEEDS_DATASETS)
    lengths: dict[str, list[Integers]] = {side: [] for side in SIDES}
    tags: list[Integers] = []
    with ExitStack() as stack:
        files = {side: stack.enter_context((folder / f"{side}.ids").open("wb")) for side in SIDES}
        for table in encoded.with_format("arrow").iter(ROWS_PER_PART):
            dropped.update(filter(None, table[DROPPED].to_pylist()))
            table = table.filter(pyarrow.equal(table[DROPPED], ""))
            for side, file in files.items():
                column = table[side].combine_chunks()
                lengths[side].append(column.value_lengths().to_numpy())
                file.write(column.flatten().to_numpy().tobytes())
            has_tags = "tag" in table.column_names
            tags.append(table["tag"].to_numpy() if has_tags else np.zeros(len(table), np.int64))
    for side in SIDES:
        np.save(folder / f"{side}.npy", np.append(0, np.cumsum(np.concatenate(lengths[side]), dtype=np.int64)))
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


def _map(datasets: Any, table: Any, encoder: RowEncoder, path: Path) -> Any:
    """Encode a table of sentences by `datasets.map`; its processes end with this one."""
    processes = min(available_cores(), -(-len(table) // ROWS_PER_PROCESS))
    children, environment = _Children(), os.environ
    require_package("multiprocess.util", "datasets", NEEDS_DATASETS).register_after_fork(children, _Children.begin)
    if can_redraw(Console(stderr=True)):
        datasets.enable_progress_bars()
    try:
        return table.map(
            encoder,
            input_columns=table.column_names,
            remove_columns=table.column_names,
            batched=True,
            batch_size=ROWS_PER_BATCH,
            num_proc=processes if processes > 1 else None,
            cache_file_name=str(path),
            load_from_cache_file=False,
            new_fingerprint=path.parent.name.partition(".")[0],
            desc="encoding",
        )
    except Exception as error:
        if interrupt := next((cause for cause in exception_chain(error) if isinstance(cause, KeyboardInterrupt)), None):
            raise interrupt from None  # `datasets` then raises an error of its own
        if "abruptly died" in str(error):
            reason = "by hand, or by a system that ran out of memory; fewer cores need less: taskset -c 0"
            raise RunFailed(f"task.train: a process that encoded it was killed ({reason})") from error
        raise
    finally:
        children.parent = None
        datasets.disable_progress_bars()
        os.environ = environment  # noqa: B003 - `datasets` puts a copy there, which other modules do not have


class _Children:
    """The processes of one call of `datasets.map`, until ``parent`` is None."""

    def __init__(self) -> None:
        self.parent: int | None = os.getpid()

    def begin(self) -> None:
        """Be ended by the parent, or by its death, and by nothing else."""
        if self.parent is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            # Not by prctl: that counts the thread that starts a process, and a pool replaces processes from a thread.
            threading.Thread(target=watch_parent, args=(self.parent, signal.SIGKILL), daemon=True).start()


@contextmanager
def _arrow_file(path: Path, schema: Any) -> Iterator[Callable[[Any], None]]:
    """Yield a function that appends a table to a new file; a table is a record batch."""
    pyarrow: Any = require_package("pyarrow", "datasets", NEEDS_DATASETS)
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, schema) as writer:
        yield writer.write_table
