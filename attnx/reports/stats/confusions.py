"""Where outputs go wrong: which symbols are substituted, missed or put in, and which are taken for which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from attnx.metrics.nearest_reference import nearest_reference
from attnx.runs.predictions import PredictionRow, read_predictions


class SymbolErrors(NamedTuple):
    """One symbol: how often references hold it, and how often it was substituted, missed or put in where none is."""

    symbol: str
    references: int
    substituted: int
    missed: int
    inserted: int

    @property
    def errors(self) -> int:
        """All of them."""
        return self.substituted + self.missed + self.inserted


class Confusion(NamedTuple):
    """How often one symbol was written in the place of another."""

    reference: str
    written: str
    times: int


def errors_by_symbol(folder: Path | str) -> list[SymbolErrors]:
    """Every symbol of the references and outputs, that with the most errors first.

    Edits are those of a shortest path from the nearest reference to the output; of several, the one rapidfuzz returns.

    Raises:
        UserError: predictions.tsv is missing or malformed, or holds numbers.
    """
    held: Counter[str] = Counter()
    edits: dict[str, Counter[str]] = {name: Counter() for name in ("replace", "delete", "insert")}
    for output, reference in _beside(read_predictions(folder)):
        held.update(reference)
        for name, right, written in _edits(reference, output):
            edits[name][written if name == "insert" else right] += 1
    found = [
        SymbolErrors(symbol, held[symbol], *(edits[name][symbol] for name in edits))
        for symbol in {*held, *edits["insert"]}
    ]
    return sorted(found, key=lambda row: (-row.errors, -row.references, row.symbol))


def confusions(folder: Path | str) -> list[Confusion]:
    """Every pair of symbols of which one was written for the other, the most frequent first.

    Raises:
        UserError: predictions.tsv is missing or malformed, or holds numbers.
    """
    pairs = Counter(
        (right, written)
        for output, reference in _beside(read_predictions(folder))
        for name, right, written in _edits(reference, output)
        if name == "replace"
    )
    return [Confusion(*pair, times) for pair, times in sorted(pairs.items(), key=lambda item: (-item[1], item[0]))]


def _beside(predictions: Iterable[PredictionRow]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Each output and the reference that it is closest to."""
    return ((one.output, nearest_reference(one.output, one.references)[1]) for one in predictions)


def _edits(reference: Sequence[str], output: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Each edit's name, the symbol of the reference and the one written; "" for a side that has none."""
    for edit in Levenshtein.editops(reference, output):
        right = reference[edit.src_pos] if edit.tag != "insert" else ""
        yield edit.tag, right, output[edit.dest_pos] if edit.tag != "delete" else ""
