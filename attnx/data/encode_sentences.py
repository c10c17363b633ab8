"""Encoding the sentences of a corpus larger than memory: read once, written as text, and from there as ids."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import numpy as np
from rich.console import Console
from rich.progress import track

from attnx.data.dataset import PairDataset, Ragged
from attnx.data.permutation import Integers
from attnx.data.readers.parallel_corpus import Sentence, drop_blank, dropped_note, filter_by_length
from attnx.data.splits import SentenceHoldout
from attnx.data.text_pipeline import TextPipeline
from attnx.errors import UserError
from attnx.files.printable import can_redraw

TEXT: Final = "text.tsv"  # until it is encoded
SIDES, TAGS = ("source", "target"), "tags.npy"
# Sentences in memory: those that tokenizers learn from, and those that may be held out.
MAX_SAMPLE: Final = 1_000_000
MAX_HELD_OUT: Final = 100_000
ROWS_PER_PART: Final = 2**13  # in memory while the files are written that training reads

T = TypeVar("T")


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
