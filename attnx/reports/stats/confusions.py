"""Symbol errors of a run: substitutions, deletions and insertions per symbol, and confused pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from attnx.metrics.nearest_reference import nearest_reference
from attnx.runs.predictions import PredictionRow, read_predictions


class SymbolErrors(NamedTuple):
    """One symbol: its count in references, and how often it was substituted, missed or inserted."""

    symbol: str
    references: int
    substituted: int
    missed: int
    inserted: int

    @property
    def errors(self) -> int:
        """All errors."""
        return self.substituted + self.missed + self.inserted


class Confusion(NamedTuple):
    """How often one symbol was predicted instead of another."""

    reference: str
    written: str
    times: int


def errors_by_symbol(folder: Path | str) -> list[SymbolErrors]:
    """Errors of every symbol of references and outputs, most errors first.

    Edits are those of a shortest path from the nearest reference to the output; of several, the one rapidfuzz returns.

    Raises:
        UserError: predictions.tsv is missing or malformed, or holds numbers.
    """
    references: Counter[str] = Counter()
    edits: dict[str, Counter[str]] = {name: Counter() for name in ("replace", "delete", "insert")}
    for output, reference in _with_references(read_predictions(folder)):
        references.update(reference)
        for name, right, written in _edits(reference, output):
            edits[name][written if name == "insert" else right] += 1
    rows = [
        SymbolErrors(symbol, references[symbol], *(edits[name][symbol] for name in edits))
        for symbol in {*references, *edits["insert"]}
    ]
    return sorted(rows, key=lambda row: (-row.errors, -row.references, row.symbol))


def confusions(folder: Path | str) -> list[Confusion]:
    """Every pair of confused symbols, the most frequent first.

    Raises:
        UserError: predictions.tsv is missing or malformed, or holds numbers.
    """
    pairs = Counter(
        (right, written)
        for output, reference in _with_references(read_predictions(folder))
        for name, right, written in _edits(reference, output)
        if name == "replace"
    )
    return [Confusion(*pair, times) for pair, times in sorted(pairs.items(), key=lambda item: (-item[1], item[0]))]


def _with_references(predictions: Iterable[PredictionRow]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Each output with its nearest reference."""
    return ((row.output, nearest_reference(row.output, row.references)[1]) for row in predictions)


def _edits(reference: Sequence[str], output: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Each edit's name, its reference symbol and its output symbol; "" for an empty side."""
    for edit in Levenshtein.editops(reference, output):
        right = reference[edit.src_pos] if edit.tag != "insert" else ""
        yield edit.tag, right, output[edit.dest_pos] if edit.tag != "delete" else ""
