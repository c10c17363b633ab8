"""Train, valid and test splits: one without data of its own is held out of the training data by a hash."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from typing import Generic, Literal, NamedTuple, TypeVar

from attnx.data.readers.parallel_corpus import Sentence
from attnx.errors import UserError

T = TypeVar("T")
SplitName = Literal["train", "valid", "test"]


class Splits(NamedTuple, Generic[T]):
    """Examples of the three splits."""

    train: list[T]
    valid: list[T]
    test: list[T]


def hash_fraction(text: str) -> float:
    """Return a text's hash as a number in [0, 1): the first 53 bits of the SHA-256 of its UTF-8 bytes."""
    digest = hashlib.sha256(text.encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53  # 53 bits: more would round up to 1.0


def fold_text(text: str) -> str:
    r"""Return a text without differences of case and Unicode form.

    >>> fold_text("Ça va ?") == fold_text("c\u0327A VA ?")
    True
    """
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def holdout_shares(holdout: float, existing: Container[str]) -> tuple[float, float]:
    """Return the shares to hold out for valid and test: ``holdout`` and twice as much, 0 for ``existing`` splits.

    Shares that leave nothing to train on are a UserError.
    """
    valid, test = 0.0 if "valid" in existing else holdout, 0.0 if "test" in existing else 2 * holdout
    if not (holdout >= 0 and valid + test < 1):
        shares = f"valid={valid} and test={test}"
        raise UserError(f"the held-out shares {shares} must be 0 or more and sum to less than 1; lower task.holdout")
    return valid, test


def assign_split(fraction: float, valid: float, test: float) -> SplitName:
    """Return the split of a hash: test has the lowest ``test`` of [0, 1), valid the highest ``valid``."""
    return "test" if fraction < test else "valid" if fraction >= 1 - valid else "train"


def split_by_hash(
    items: Iterable[T], key: Callable[[T], str], valid: float, test: float, sort_held_out: bool = False
) -> Splits[T]:
    """Split items by the hash of their source.

    The split of an item depends on its source alone: adding or reordering data moves no source, and another ``test``
    share moves none into or out of valid. Sizes meet the shares only on average. Splits keep the order of the items,
    or with ``sort_held_out`` valid and test are ordered by hash. ``key`` maps an item to its source as text.
    """
    splits = Splits[T]([], [], [])
    for item in items:
        getattr(splits, assign_split(hash_fraction(key(item)), valid, test)).append(item)
    if sort_held_out:
        for part in (splits.valid, splits.test):
            part.sort(key=lambda item: hash_fraction(key(item)))
    return splits


def hold_out_missing(
    train: Iterable[T],
    existing: Mapping[str, Iterable[T]],
    key: Callable[[T], str],
    holdout: float,
    sort_held_out: bool = False,
) -> Splits[T]:
    """The ``existing`` valid and test splits; one that is missing is held out of ``train``, as by split_by_hash."""
    valid, test = holdout_shares(holdout, existing)
    splits = split_by_hash(train, key, valid, test, sort_held_out)
    return splits._replace(**{name: list(items) for name, items in existing.items()})


def overlap_notes(train: Container[T], splits: Mapping[str, Collection[T]]) -> list[str]:
    """Return a note on each split with sources that are in the training split too."""
    overlaps = {name: sum(source in train for source in sources) for name, sources in splits.items()}
    return [
        f"{overlap:,} of {len(splits[name]):,} sources of the {name} split are also in the training split"
        for name, overlap in overlaps.items()
        if overlap
    ]


class SentenceHoldout:
    """Valid and test sentences: as they are given, or held out of a stream of training sentences.

    All translations of a sentence, into any language, are in one part. Held-out sentences are ordered by hash; the
    translations of one into one language are its references. Without ``valid``, ``holdout`` of the sentences are held
    out, without ``test`` twice as many; at most ``max_sentences``, each language counted for itself.
    """

    def __init__(
        self,
        valid: list[Sentence] | None,
        test: list[Sentence] | None,
        holdout: float,
        max_sentences: int | None = None,
    ) -> None:
        self.existing = {"valid": valid, "test": test}
        given = [name for name, part in self.existing.items() if part is not None]
        self.valid_share, self.test_share = holdout_shares(holdout, given)
        self.holdout, self.max_sentences = holdout, max_sentences
        # (hash fraction, source, language) -> its translations, each once
        self._held_out: dict[str, dict[tuple[float, str, str], dict[str, None]]] = {"valid": {}, "test": {}}

    def split_off(self, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        """Yield the training sentences and store the held-out ones; a UserError if these are too many."""
        if not (self.valid_share or self.test_share):
            yield from sentences
            return
        for sentence in sentences:
            fraction = hash_fraction(fold_text(sentence.source))  # whatever its case and Unicode form
            part = assign_split(fraction, self.valid_share, self.test_share)
            if part == "train":
                yield sentence
                continue
            references = self._held_out[part].setdefault((fraction, sentence.source, sentence.tag), {})
            references.update(dict.fromkeys(sentence.references))
            if self.max_sentences is not None and sum(map(len, self._held_out.values())) > self.max_sentences:
                raise UserError(
                    f"task.holdout={self.holdout:g} holds out more than {self.max_sentences:,} sentences, which must "
                    "fit in memory; lower it, or name task.valid and task.test"
                )

    def sentences(self, name: str) -> list[Sentence]:
        """Return the sentences of the split ``valid`` or ``test``."""
        existing = self.existing[name]
        if existing is not None:
            return existing
        held_out = sorted(self._held_out[name].items())
        return [Sentence(source, tuple(references), tag) for (_, source, tag), references in held_out]


def split_sentences(
    train: Iterable[Sentence], valid: list[Sentence] | None, test: list[Sentence] | None, holdout: float
) -> Splits[Sentence]:
    """Split sentences: missing splits are held out of ``train``, see :class:`SentenceHoldout`."""
    sentence_holdout = SentenceHoldout(valid, test, holdout)
    return Splits(
        list(sentence_holdout.split_off(train)), sentence_holdout.sentences("valid"), sentence_holdout.sentences("test")
    )
