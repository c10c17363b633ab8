"""Train, valid and test parts of sentences: what was not given is held out by a hash of the source sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from attnx.data.readers.parallel_corpus import Sentence
from attnx.data.split import bounds, fold_text, met_in_training, place
from attnx.errors import UserError

# A sentence's number, itself and its language -> its translations, each once.
Gathered = dict[tuple[float, str, str], dict[str, None]]


class Parts(NamedTuple):
    """The three parts; those held out are in an order that the hash decides, whatever that of the file."""

    train: list[Sentence]
    valid: list[Sentence]
    test: list[Sentence]


def where(source: str) -> float:
    """A source sentence's own number in [0, 1), whatever its case and Unicode form."""
    return place((fold_text(source),))


class HeldOut:
    """The parts beside the training part: as given, or held out of it while its sentences go by.

    All translations of a sentence, into whatever language, go the same way; a sentence's part depends on nothing but
    the sentence. In a part that is held out, a sentence's translations into one language are its references.

    Args:
        valid: what to validate on; None to hold out ``share`` of the sentences.
        test: what to test on; None to hold out twice as many.
        share: see above.
        most: how many may be held out, each language for itself; None for any number.
    """

    def __init__(
        self, valid: list[Sentence] | None, test: list[Sentence] | None, share: float, most: int | None = None
    ) -> None:
        self.given = {"valid": valid, "test": test}
        self.low, self.high = bounds(share, [part for part, listed in self.given.items() if listed is not None])
        self.share, self.most = share, most
        self._found: dict[str, Gathered] = {"valid": {}, "test": {}}

    def trains(self, sentence: Sentence) -> bool:
        """Whether a sentence is one to train on."""
        return self.low <= where(sentence.source) < self.high

    def training(self, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        """Pass on the sentences to train on, and keep the others.

        Raises:
            UserError: there are more than ``most`` to keep.
        """
        for sentence in sentences:
            at = where(sentence.source)
            if self.low <= at < self.high:
                yield sentence
                continue
            found = self._found["test" if at < self.low else "valid"]
            key = at, sentence.source, sentence.tag
            found.setdefault(key, {}).update(dict.fromkeys(sentence.references))
            if self.most is not None and sum(map(len, self._found.values())) > self.most:
                raise UserError(
                    f"task.holdout={self.share:g} holds more than {self.most:,} sentences out, which are kept in "
                    "memory; lower it, or name a task.valid and a task.test"
                )

    def part(self, name: str) -> list[Sentence]:
        """The part ``valid`` or ``test``; one that is held out has the order of its sentences' numbers."""
        given = self.given[name]
        if given is not None:
            return given
        found = sorted(self._found[name].items())
        return [Sentence(source, tuple(references), tag) for (_, source, tag), references in found]


def complete(
    train: Iterable[Sentence], valid: list[Sentence] | None, test: list[Sentence] | None, holdout: float
) -> Parts:
    """Hold out what was not given: ``holdout`` of the sentences for ``valid``, twice as many for ``test``."""
    held = HeldOut(valid, test, holdout)
    return Parts(list(held.training(train)), held.part("valid"), held.part("test"))


def known_sources(known: Collection[str], valid: Sequence[Sentence], test: Sequence[Sentence]) -> list[str]:
    """A line for each part whose sources are partly among those ``known`` from the training part."""
    lines = []
    for name, part in (("valid", valid), ("test", test)):
        lines += met_in_training(name, sum(sentence.source in known for sentence in part), len(part))
    return lines
