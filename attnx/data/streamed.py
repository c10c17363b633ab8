"""A training part that is never in memory: read once for what must be known of it all, and once more to be encoded."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeVar

from attnx.data.filters import told
from attnx.data.held_out import HeldOut, known_sources
from attnx.data.mapped import Entry, write_corpus
from attnx.data.pairs import Pair
from attnx.data.parallel import Sentence
from attnx.data.store import JUDGED, ROWS, Store, Stored
from attnx.data.texts import Texts
from attnx.errors import UserError

# Sentences in memory: those that tokenisers learn from, and those that may be held out.
SAMPLE: Final = 1_000_000
HELD_OUT: Final = 100_000

T = TypeVar("T")


class Survey(NamedTuple):
    """What the first reading finds.

    Attributes:
        sample: sentences to train on, drawn by chance, in the order of the data if they are all of them.
        tags: every tag of the sentences to train on, sorted.
        known: sources to train on that are also those of a given part.
    """

    sample: list[Sentence]
    tags: list[str]
    known: set[str]


def survey(sentences: Iterable[Sentence], held: HeldOut) -> Survey:
    """Read the training part through; what is held out of it is then in ``held``."""
    judged = {sentence.source for part in held.given.values() for sentence in part or ()}
    tags: set[str] = set()
    known: set[str] = set()

    def watched() -> Iterator[Sentence]:
        for sentence in held.training(sentences):
            tags.add(sentence.tag)
            if sentence.source in judged:
                known.add(sentence.source)
            yield sentence

    sample = drawn(watched(), SAMPLE)
    return Survey(sample, sorted(tags), known)


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
    store: Store, pairs: Iterable[Pair], dropped: Counter[str], found: Survey, held: HeldOut, texts: Texts
) -> None:
    """Encode the training part into a store, with all that later runs need to do without these readings.

    Args:
        store: where to.
        pairs: the second reading, few of them in memory at a time.
        dropped: counts what it leaves out, by reason.
        found: by the first reading.
        held: the other parts.
        texts: as learned from the sample.

    Raises:
        UserError: no pairs, or none with one of the tags; the training files change meanwhile; or it cannot be written.
    """
    kept: Counter[str] = Counter()
    tags = [] if found.tags == [""] else found.tags
    parts = {part: held.part(part) for part in JUDGED}

    def entries() -> Iterator[Entry]:
        for pair in pairs:
            kept[pair.tag] += 1
            for reference in pair.references:
                yield pair.source, reference, pair.tag
        if missing := [tag for tag in found.tags if not kept[tag]]:
            of_it = f" of {missing[0]!r}" if kept else ""
            raise UserError(f"no training pair{of_it} is left: {told(dropped, dropped.total() + kept.total())}")

    with store.writing() as unfinished:
        write_corpus(unfinished / ROWS, entries(), *texts.vocabularies(), tags)
        texts.save(unfinished)
        left_out = told(dropped, dropped.total() + kept.total())
        own = {part: listed for part, listed in parts.items() if held.given[part] is None}
        met = known_sources(found.known, *parts.values())
        store.record(unfinished, Stored(found.tags, [*filter(None, [left_out])], met, own))
