"""A sample of examples: the same for every run on the same data, whatever their order and however a run cuts them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from attnx.data.examples import Pair, digest
from attnx.data.features import Matrix
from attnx.data.permutation import Numbers
from attnx.data.special_tokens import tag_symbol
from attnx.data.split import fold_text, place

SEED: Final = "sample"
"""Decides what is drawn; it is no run's, so that all runs draw alike."""


def sample_examples(pairs: Sequence[Pair], count: int | None) -> list[Pair]:
    """Draw ``count`` examples, stratified by tag, in the order of the data; all if there are no more, or for None.

    Each example has a number in [0, 1), a hash of the seed and of what the example is; of each tag the examples with
    the lowest numbers are drawn (permanent random numbers, Ohlsson 1995, in: Business Survey Methods, chapter 9).
    A tag's part of the sample is its share of the data, up or down by less than one, and one at least where ``count``
    allows. So a sample is part of every larger one, and moves little when data are added.

    An example is known by its name if it has one, else by its references' texts, a matrix that it reads, or its source;
    case, Unicode form and how a text is cut into symbols make no difference. Examples that are known by the same have
    numbers of their own.
    """
    if count is None or count >= len(pairs):
        return list(pairs)
    numbers = _numbers(pairs)
    strata: defaultdict[str, list[int]] = defaultdict(list)
    for row in np.argsort(numbers, kind="stable").tolist():
        strata[pairs[row].tag].append(row)
    tags = sorted(strata)
    quotas = _quotas(np.array([len(strata[tag]) for tag in tags]), count)
    drawn = [row for tag, quota in zip(tags, quotas.tolist(), strict=True) for row in strata[tag][:quota]]
    return [pairs[row] for row in sorted(drawn)]


def _quotas(sizes: Numbers, count: int) -> Numbers:
    """Share ``count`` out among strata in proportion to their sizes; what a stratum has never falls as ``count`` rises.

    That is not so where the largest remainders decide (the Alabama paradox), so these are Balinski and Young's quotas,
    which differ from the exact shares by less than one, too. Before that each stratum gets one, large ones first.

    Source: Balinski and Young 1975, The quota method of apportionment, American Mathematical Monthly 82
    """
    if len(sizes) == 1:
        return np.array([count])
    quotas, total = np.zeros_like(sizes), sizes.sum()
    for given in range(count):
        # Of those below their share of one more, the one that is served worst.
        may = quotas == 0 if given < len(sizes) else quotas * total < sizes * (given + 1)
        quotas[np.argmin(np.where(may, (quotas + 1) / sizes, np.inf))] += 1
    return quotas


def _numbers(pairs: Sequence[Pair]) -> list[float]:
    """The number of each example."""
    known: defaultdict[str, list[int]] = defaultdict(list)
    for row, pair in enumerate(pairs):
        known[_identity(pair)].append(row)
    numbers = [0.0] * len(pairs)
    for identity, rows in known.items():
        # Equal ones are told apart by their place among themselves, which is not that in the data.
        alike = sorted(rows, key=lambda row: _content(pairs[row])) if len(rows) > 1 else rows
        for occurrence, row in enumerate(alike):
            numbers[row] = place((SEED, "\t", identity, "\t", str(occurrence)))
    return numbers


def _identity(pair: Pair) -> str:
    """What an example is known by."""
    return pair.name or fold_text("\t".join(sorted(pair.texts))) or _hash(pair.features) or _source(pair)


def _source(pair: Pair) -> str:
    """The text that was cut into the source's symbols, without the symbol that tells the tag."""
    return fold_text("".join(symbol for symbol in pair.source if symbol != tag_symbol(pair.tag)))


def _hash(matrix: Matrix | None) -> str:
    return "" if matrix is None else hashlib.sha256(repr(matrix.shape).encode() + matrix.tobytes()).hexdigest()


def _content(pair: Pair) -> bytes:
    """All that an example holds, whatever the order of its references."""
    return digest(pair._replace(references=tuple(sorted(pair.references)), texts=tuple(sorted(pair.texts))))
