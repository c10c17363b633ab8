"""Encoding a training corpus larger than memory: one pass scans it, a second one encodes it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from attnx.data.corpus_cache import memmap
from attnx.data.corpus_cache.folder import (
    EVALUATION_PARTS,
    ROWS,
    CorpusMetadata,
    CorpusStore,
    EncodingProgress,
    UnfinishedStore,
)
from attnx.data.corpus_cache.memmap import Entry
from attnx.data.corpus_cache.reading_progress import show_progress
from attnx.data.examples import Pair
from attnx.data.readers.parallel_corpus import Sentence
from attnx.data.splits import SentenceHoldout, overlap_notes
from attnx.data.text_pipeline import TextPipeline
from attnx.errors import UserError

# Sentences in memory: those that tokenizers learn from, and those that may be held out.
MAX_SAMPLE: Final = 1_000_000
MAX_HELD_OUT: Final = 100_000

T = TypeVar("T")


def scan_corpus(sentences: Iterable[Sentence], holdout: SentenceHoldout) -> tuple[list[Sentence], CorpusMetadata]:
    """Read the training files once: collect the held-out parts in ``holdout``, and return a sample of the others.

    The sample is drawn at random; it is in the order of the data if it is all of them.
    """
    evaluation_sources = {sentence.source for part in holdout.existing.values() for sentence in part or ()}
    tags: set[str] = set()
    overlap: set[str] = set()
    progress = EncodingProgress()

    def training() -> Iterator[Sentence]:
        for sentence in holdout.split_off(progress.count(sentences)):
            tags.add(sentence.tag)
            if sentence.source in evaluation_sources:
                overlap.add(sentence.source)
            yield sentence

    sample = reservoir_sample(training(), MAX_SAMPLE)
    parts = {part: holdout.part(part) for part in EVALUATION_PARTS}
    notes = overlap_notes(overlap, {part: [sentence.source for sentence in items] for part, items in parts.items()})
    held_out = {part: items for part, items in parts.items() if holdout.existing[part] is None}
    return sample, CorpusMetadata(sorted(tags), progress.sentences, notes, held_out, [])


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


def write_store(
    store: CorpusStore,
    unfinished: UnfinishedStore,
    sentences: Iterable[Sentence],
    make_pairs: Callable[[Iterable[Sentence], Counter[str]], Iterator[Pair]],
    metadata: CorpusMetadata,
    texts: TextPipeline,
) -> None:
    """Encode the training part into a store, or continue an interrupted encoding.

    ``sentences`` are all training sentences from the beginning; ``make_pairs`` tokenizes and filters them, and counts
    the dropped ones by reason. It is a UserError if no pair is left, or none of a tag, or the files have changed.
    """
    progress = unfinished.read_progress()
    missing = progress.count(islice(sentences, progress.sentences, None))
    pairs = make_pairs(show_progress("encoding", missing, metadata.sentences, progress.sentences), progress.dropped)

    def save_counts(counts: dict[str, int]) -> None:
        progress.counts = counts
        unfinished.write_progress(progress)

    rows = unfinished.path / ROWS
    rows.mkdir(exist_ok=True)
    chunks = _entry_chunks(pairs, progress, metadata.tags)
    tags = [] if metadata.tags == [""] else metadata.tags
    memmap.extend_corpus(rows, chunks, *texts.vocabularies(), tags, progress.counts, save_counts)
    store.finish(unfinished, metadata._replace(notes=list(filter(None, [progress.note()]))))


def _entry_chunks(pairs: Iterator[Pair], progress: EncodingProgress, tags: list[str]) -> Iterator[list[Entry]]:
    """Yield the entries of some pairs at a time, and count the pairs in ``progress``."""
    while chunk := list(islice(pairs, memmap.ROWS_PER_CHUNK)):
        progress.pairs.update(pair.tag for pair in chunk)
        entries = [(pair.source, reference, pair.tag) for pair in chunk for reference in pair.references]
        chunk.clear()  # before the next one is made
        yield entries
    if missing := [tag for tag in tags if not progress.pairs[tag]]:
        which = f" of {missing[0]!r}" if progress.pairs else ""
        raise UserError(f"no training pair{which} is left: {progress.note()}")
