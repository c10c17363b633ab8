"""A sample that is the same for every run on the same data, with any tokenizer."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from attnx.data.examples import Pair, digest
from attnx.data.splits import fold_text, hash_fraction
from attnx.data.vocabulary import tag_symbol

SEED: Final = "sample"
"""Seed of all runs, so that they draw the same examples."""


def sample_examples(pairs: Sequence[Pair], count: int | None) -> list[Pair]:
    """Draw ``count`` examples, stratified by tag, in the order of the data; all if there are no more, or for None.

    Each example has a hash in [0, 1) of the seed and its identity; of each tag the examples with the lowest hashes are
    drawn (permanent random numbers, Ohlsson 1995, in: Business Survey Methods, chapter 9). A tag's share of the sample
    is about its share of the data (Sainte-Lague's method), but each tag has one at least if ``count`` allows. So a
    sample is part of every larger one, and changes little when data are added.

    The identity of an example is its name, else its references' texts, its feature matrix, or its source; case, Unicode
    form and the options of the task make no difference. Examples with equal identities get different hashes.
    """
    if count is None or count >= len(pairs):
        return list(pairs)
    strata: defaultdict[str, list[int]] = defaultdict(list)
    for row in np.argsort(_hash_fractions(pairs), kind="stable").tolist():
        strata[pairs[row].tag].append(row)
    # The first of a tag's n examples comes before all others, and the k-th when k / n of the sample is drawn.
    places = {
        row: ((index + 0.5) / len(rows) * (index > 0), -len(rows), tag)
        for tag, rows in strata.items()
        for index, row in enumerate(rows)
    }
    return [pairs[row] for row in sorted(sorted(places, key=places.__getitem__)[:count])]


def _hash_fractions(pairs: Sequence[Pair]) -> list[float]:
    """Return the hash of each example in [0, 1)."""
    rows_by_identity: defaultdict[str, list[int]] = defaultdict(list)
    for row, pair in enumerate(pairs):
        rows_by_identity[_identity(pair)].append(row)
    hashes = [0.0] * len(pairs)
    for identity, rows in rows_by_identity.items():
        # Equal identities are numbered by content, so that the order of the data makes no difference.
        contents = {row: _content(pairs[row]) for row in rows} if len(rows) > 1 else {}
        for occurrence, row in enumerate(sorted(contents, key=contents.__getitem__) or rows):
            hashes[row] = hash_fraction(f"{SEED}\t{identity}\t{occurrence}")
    return hashes


def _content(pair: Pair) -> bytes:
    """A digest by which to number examples of equal identity, however they are tokenized."""
    texts, references = sorted(pair.texts), sorted(pair.references)
    if pair.identity and texts:
        texts, references = sorted(map(fold_text, texts)), []
    source = pair.identity or pair.source
    return digest(pair._replace(source=source, references=tuple(references), texts=tuple(texts)))


def _identity(pair: Pair) -> str:
    if text := pair.name or "\t".join(sorted(map(fold_text, pair.texts))):
        return text
    if pair.features is not None:
        matrix = pair.features.astype(np.float32)
        return hashlib.sha256(repr(matrix.shape).encode() + matrix.tobytes()).hexdigest()
    return fold_text("".join(pair.identity or (symbol for symbol in pair.source if symbol != tag_symbol(pair.tag))))
