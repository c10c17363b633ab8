"""A training part that is never in memory: read once for what must be known of it all, and once more to be encoded."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from attnx.data.corpus_cache import memmap
from attnx.data.corpus_cache.folder import JUDGED, ROWS, CorpusMetadata, Store
from attnx.data.corpus_cache.memmap import Entry
from attnx.data.corpus_cache.reading_progress import watched
from attnx.data.corpus_cache.unfinished_folder import Encoded, Survey, UnfinishedStore
from attnx.data.examples import Pair
from attnx.data.filters import told
from attnx.data.held_out import HeldOut, known_sources
from attnx.data.readers.parallel_corpus import Sentence
from attnx.data.text_pipeline import Texts
from attnx.errors import UserError

# Sentences in memory: those that tokenizers learn from, and those that may be held out.
SAMPLE: Final = 1_000_000
HELD_OUT: Final = 100_000

T = TypeVar("T")


def survey(sentences: Iterable[Sentence], held: HeldOut) -> Survey:
    """Read the training part through; what is held out of it is then in ``held``."""
    judged = {sentence.source for part in held.given.values() for sentence in part or ()}
    tags: set[str] = set()
    known: set[str] = set()

    def kept() -> Iterator[Sentence]:
        for sentence in held.training(reading):
            tags.add(sentence.tag)
            if sentence.source in judged:
                known.add(sentence.source)
            yield sentence

    reading = _Counted(sentences, 0)
    sample = drawn(kept(), SAMPLE)
    parts = {part: held.part(part) for part in JUDGED}
    return Survey(sample, sorted(tags), known, reading.count, parts)


def drawn(items: Iterable[T], count: int, seed: int = 0) -> list[T]:
    """Draw ``count`` items, every set of so many as likely as another; all, in their order, if there are no more.

    Source: algorithm R of Vitter 1985, https://doi.org/10.1145/3147.3165

    >>> drawn("abc", 5), len(drawn(range(1009), 5))
    (['a', 'b', 'c'], 5)
    """
    chance = random.Random(seed)
    found: list[T] = []
    for number, item in enumerate(items):
        if number < count:
            found.append(item)
        elif (place := chance.randrange(number + 1)) < count:
            found[place] = item
    return found


def write(
    store: Store,
    unfinished: UnfinishedStore,
    sentences: Iterable[Sentence],
    pairs_of: Callable[[Iterable[Sentence], Counter[str]], Iterator[Pair]],
    found: Survey,
    held: HeldOut,
    texts: Texts,
) -> None:
    """Encode the training part into a store, or go on, with all that later runs need to do without these readings.

    Args:
        store: where to.
        unfinished: the folder that it is written in, and what an earlier process has done of it.
        sentences: the second reading, from its beginning.
        pairs_of: cuts sentences, few of them in memory at a time; counts what it leaves out, by reason.
        found: by the first reading.
        held: the parts that are given.
        texts: as learned from the sample.

    Raises:
        UserError: no pairs, or none with one of the tags; the training files change meanwhile; or it cannot be written.
    """
    done = unfinished.read_encoded()
    kept, dropped, tags = done.kept, done.dropped, [] if found.tags == [""] else found.tags
    reading = _Counted(islice(sentences, done.sentences, None), done.sentences)
    pairs = pairs_of(watched("encoding", reading, found.sentences, done.sentences), dropped)

    def chunks() -> Iterator[list[Entry]]:
        while some := list(islice(pairs, memmap.ENCODED)):
            kept.update(pair.tag for pair in some)
            entries = [(pair.source, reference, pair.tag) for pair in some for reference in pair.references]
            some.clear()  # before the next ones are made
            yield entries
        if missing := [tag for tag in found.tags if not kept[tag]]:
            of_it = f" of {missing[0]!r}" if kept else ""
            raise UserError(f"no training pair{of_it} is left: {told(dropped, dropped.total() + kept.total())}")

    def mark(counts: dict[str, int]) -> None:
        unfinished.write_encoded(Encoded(reading.count, kept, dropped, counts))

    rows = unfinished.path / ROWS
    rows.mkdir(exist_ok=True)
    memmap.extend_corpus(rows, chunks(), *texts.vocabularies(), tags, done.counts, mark)
    left_out = told(dropped, dropped.total() + kept.total())
    own = {part: listed for part, listed in found.parts.items() if held.given[part] is None}
    met = known_sources(found.known, *(found.parts[part] for part in JUDGED))
    store.finish(unfinished, CorpusMetadata(found.tags, [*filter(None, [left_out])], met, own))


class _Counted:
    """Passes sentences on, and counts them, those before included."""

    def __init__(self, sentences: Iterable[Sentence], count: int) -> None:
        self.sentences, self.count = sentences, count

    def __iter__(self) -> Iterator[Sentence]:
        for sentence in self.sentences:
            self.count += 1
            yield sentence
