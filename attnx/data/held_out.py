"""Train, valid and test parts of sentences: what was not given is held out by a hash of the source sentence."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from attnx.data.parallel import Sentence
from attnx.data.split import place


class Parts(NamedTuple):
    """The three parts; those held out are in an order that the hash decides, so any first so many are a fair sample."""

    train: list[Sentence]
    valid: list[Sentence]
    test: list[Sentence]


def where(source: str) -> float:
    """A source sentence's own number in [0, 1), whatever its case and Unicode form.

    >>> where("Ça va ?") == where("c\u0327A VA ?")
    True
    """
    return place((unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", source).casefold()),))


def complete(train: list[Sentence], valid: list[Sentence] | None, test: list[Sentence] | None, holdout: float) -> Parts:
    """Hold out what was not given: ``holdout`` of the sentences for ``valid``, twice as many for ``test``.

    All translations of a sentence, into whatever language, go the same way; a sentence's part depends on nothing but
    the sentence. In a part that is held out, a sentence's translations into one language are its references.
    """
    low = 2 * holdout if test is None else 0.0
    high = 1 - holdout if valid is None else 1.0
    placed = [(where(sentence.source), sentence) for sentence in train]
    return Parts(
        train=[sentence for at, sentence in placed if low <= at < high],
        valid=_gathered((at, sentence) for at, sentence in placed if at >= high) if valid is None else valid,
        test=_gathered((at, sentence) for at, sentence in placed if at < low) if test is None else test,
    )


def _gathered(placed: Iterable[tuple[float, Sentence]]) -> list[Sentence]:
    """One sentence per source and language, with all its references, in the order of their numbers."""
    found: dict[tuple[float, str, str], dict[str, None]] = {}
    for at, sentence in placed:
        found.setdefault((at, sentence.source, sentence.tag), {}).update(dict.fromkeys(sentence.references))
    return [Sentence(source, tuple(references), tag) for (_, source, tag), references in sorted(found.items())]


def known_sources(parts: Parts) -> list[str]:
    """A line for each part whose sources are partly in the training part too; none where all is held out."""
    known = {sentence.source for sentence in parts.train}
    lines = []
    for name, part in (("valid", parts.valid), ("test", parts.test)):
        if met := sum(sentence.source in known for sentence in part):
            lines.append(f"{met:,} of {len(part):,} sources of the {name} part are also in the training part")
    return lines
