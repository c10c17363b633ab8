"""Encoding a training corpus larger than memory: one pass scans its shards, a second one encodes them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import accumulate, chain, islice
from typing import Final, NamedTuple, TypeVar

from attnx.data.corpus_cache.folder import (
    EVALUATION_SPLITS,
    ROWS,
    CorpusCache,
    CorpusMetadata,
    ShardCounts,
    UnfinishedCache,
)
from attnx.data.corpus_cache.memmap import Entry
from attnx.data.corpus_cache.reading_progress import show_progress
from attnx.data.corpus_cache.shards import index_shards, write_shard
from attnx.data.corpus_cache.worker_processes import Progress, work_on_shards
from attnx.data.examples import Pair
from attnx.data.filters import drop_blank
from attnx.data.readers.parallel_corpus import Sentence, Shard, ShardedText
from attnx.data.splits import SentenceHoldout, overlap_notes
from attnx.data.text_pipeline import TextPipeline
from attnx.errors import UserError

# Sentences in memory: those that tokenizers learn from, and those that may be held out.
MAX_SAMPLE: Final = 1_000_000
MAX_HELD_OUT: Final = 100_000
SENTENCES_PER_REPORT: Final = 1000

T = TypeVar("T")


class ShardScan(NamedTuple):
    """The result of the first pass over a shard.

    Attributes:
        tags: of the training sentences.
        overlap: their sources that are also in a part with its own files.
        held_out: the other sentences.
        sample: of the training sentences.
    """

    tags: set[str]
    overlap: set[str]
    held_out: list[Sentence]
    sample: list[Sentence]


def scan_corpus(
    text: ShardedText, texts: TextPipeline, holdout: SentenceHoldout, processes: int
) -> tuple[list[Sentence], CorpusMetadata]:
    """Read the training files once: collect the held-out splits in ``holdout``, and return a sample of the others.

    The sample is drawn at random, from each shard as many as its share of the sentences; it is in the order of the data
    if it is all of them.
    """
    ends = [0, *accumulate(shard.max_sentences for shard in text.shards)]
    sources = {sentence.source for part in holdout.existing.values() for sentence in part or ()}

    def scan(shard: Shard, progress: Progress) -> ShardScan:
        start, end = (MAX_SAMPLE * ends[index] // ends[-1] for index in (shard.index, shard.index + 1))
        sentences = map(texts.normalize_sentence, report_progress(text.read(shard), progress))
        return scan_shard(drop_blank(sentences, Counter()), holdout, sources, end - start, seed=shard.index)

    sample: list[Sentence] = []
    tags, overlap = set[str](), set[str]()
    with show_progress("reading", ends[-1]) as progress:
        for result in work_on_shards(scan, text.shards, processes, progress):
            sample += result.sample
            tags |= result.tags
            overlap |= result.overlap
            for sentence in result.held_out:
                holdout.hold_out(sentence)
    parts = {part: holdout.sentences(part) for part in EVALUATION_SPLITS}
    notes = overlap_notes(overlap, {part: [sentence.source for sentence in items] for part, items in parts.items()})
    held_out = {part: items for part, items in parts.items() if holdout.existing[part] is None}
    return sample, CorpusMetadata(sorted(tags), notes, held_out, [])


def scan_shard(
    sentences: Iterable[Sentence], holdout: SentenceHoldout, sources: Container[str], count: int, seed: int
) -> ShardScan:
    """Separate the sentences to hold out, and draw a sample of ``count`` others."""
    scan = ShardScan(set(), set(), [], [])
    held_out: dict[tuple[str, str], dict[Sentence, None]] = {}  # by source and tag, as they are counted

    def training() -> Iterator[Sentence]:
        for sentence in sentences:
            if holdout.is_training(sentence):
                scan.tags.add(sentence.tag)
                if sentence.source in sources:
                    scan.overlap.add(sentence.source)
                yield sentence
            elif len(held_out) <= MAX_HELD_OUT:  # one more is an error
                held_out.setdefault((sentence.source, sentence.tag), {})[sentence] = None

    sample = reservoir_sample(training(), count, seed)
    return scan._replace(sample=sample, held_out=list(chain.from_iterable(held_out.values())))


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


def write_cache(
    cache: CorpusCache,
    unfinished: UnfinishedCache,
    text: ShardedText,
    make_pairs: Callable[[Iterable[Sentence], Counter[str]], Iterator[Pair]],
    metadata: CorpusMetadata,
    texts: TextPipeline,
    processes: int,
) -> None:
    """Encode the training split into a cache, or continue an interrupted encoding.

    ``make_pairs`` tokenizes and filters the sentences of a shard, and counts the dropped ones by reason. It is a
    UserError if no pair is left, or none of a tag, or the files have changed.
    """
    tags = [] if metadata.tags == [""] else metadata.tags
    source, target = texts.vocabularies()

    def encode(shard: Shard, progress: Progress) -> None:
        counts = ShardCounts()
        sentences = map(texts.normalize_sentence, report_progress(text.read(shard), progress))
        pairs = make_pairs(sentences, counts.dropped)
        with unfinished.new_shard(shard.index, counts) as folder:
            write_shard(folder, _entries(pairs, counts.pairs), source, target, tags)

    done = unfinished.read_counts(len(text.shards))
    missing = [shard for shard in text.shards if shard.index not in done]
    total_sentences = sum(shard.max_sentences for shard in text.shards)
    start = total_sentences - sum(shard.max_sentences for shard in missing)
    with show_progress("encoding", total_sentences, start) as progress:
        for _ in work_on_shards(encode, missing, processes, progress):
            pass
    total = sum(unfinished.read_counts(len(text.shards)).values(), ShardCounts())
    if missing_tags := [tag for tag in metadata.tags if not total.pairs[tag]]:
        which = f" of {missing_tags[0]!r}" if total.pairs else ""
        raise UserError(f"no training pair{which} is left: {total.note()}")
    index_shards(unfinished.path / ROWS, len(text.shards), source, target, tags)
    cache.finish(unfinished, metadata._replace(notes=list(filter(None, [total.note()]))))


def _entries(pairs: Iterable[Pair], counts: Counter[str]) -> Iterator[Entry]:
    """Yield the entries of pairs, and count the pairs by tag."""
    for pair in pairs:
        counts[pair.tag] += 1
        for reference in pair.references:
            yield pair.source, reference, pair.tag


def report_progress(sentences: Iterable[Sentence], progress: Progress) -> Iterator[Sentence]:
    """Yield sentences and report how many."""
    stream = iter(sentences)
    while chunk := list(islice(stream, SENTENCES_PER_REPORT)):
        yield from chunk
        progress(len(chunk))
