"""Where a run goes wrong: its error rates by the length of the source, from predictions.tsv."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from attnx.metrics.nearest_reference import nearest_reference
from attnx.runs.predictions import PredictionRow, read_predictions

BINS = (4, 6, 8, 10, 12)


class Row(NamedTuple):
    """The examples of one bin: how many, edits per hundred reference symbols, and wrong outputs per hundred."""

    length: str
    examples: int
    symbol_error_rate: float
    sequence_error_rate: float


def error_by_length(folder: Path | str, bins: Sequence[int] = BINS) -> list[Row]:
    """Return one row per bin that holds examples, shortest first.

    Args:
        folder: a run folder with predictions.tsv.
        bins: the greatest source length, in symbols, of each bin, ascending; one open bin follows the last.

    Raises:
        UserError: predictions.tsv is missing or malformed.
    """
    return [_row(label, some) for label, some in by_length(read_predictions(folder), bins).items()]


def by_length(predictions: Sequence[PredictionRow], bins: Sequence[int] = BINS) -> dict[str, list[PredictionRow]]:
    """The predictions of each bin that holds any, by its label, shortest first; no language's symbol is counted."""
    binned: dict[int, list[PredictionRow]] = defaultdict(list)
    for prediction in predictions:
        binned[bisect_left(bins, len(prediction.untagged_source))].append(prediction)
    return {bin_label(bins, number): binned[number] for number in sorted(binned)}


def bin_label(bins: Sequence[int], number: int) -> str:
    """Name a bin by its least and greatest length: ``1-4``, ``5``, ``13+``."""
    least = bins[number - 1] + 1 if number else 1
    if number == len(bins):
        return f"{least}+"
    return str(least) if least == bins[number] else f"{least}-{bins[number]}"


def _row(label: str, predictions: Sequence[PredictionRow]) -> Row:
    edits = sum(prediction.edits for prediction in predictions)
    symbols = sum(len(nearest_reference(prediction.output, prediction.references)[1]) for prediction in predictions)
    wrong = sum(prediction.edits > 0 for prediction in predictions)
    return Row(label, len(predictions), 100 * edits / max(symbols, 1), 100 * wrong / len(predictions))
