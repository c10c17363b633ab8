"""Error rates of a run by source length, from predictions.tsv."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from attnx.metrics.nearest_reference import nearest_reference
from attnx.runs.predictions import PredictionRow, read_predictions

BINS = (4, 6, 8, 10, 12)


class LengthErrorRates(NamedTuple):
    """One bin of source lengths: its examples and its error rates in percent."""

    length: str
    examples: int
    symbol_error_rate: float
    sequence_error_rate: float


def error_by_length(folder: Path | str, bins: Sequence[int] = BINS) -> list[LengthErrorRates]:
    """One row per bin with examples, shortest first.

    Args:
        folder: a run folder with predictions.tsv.
        bins: greatest source length of each bin in symbols, ascending; an open bin follows.

    Raises:
        UserError: predictions.tsv is missing or malformed.
    """
    return [_row(label, group) for label, group in by_length(read_predictions(folder), bins).items()]


def by_length(predictions: Sequence[PredictionRow], bins: Sequence[int] = BINS) -> dict[str, list[PredictionRow]]:
    """The predictions of each bin with any, by its label, shortest first; language tags do not count as symbols."""
    binned: dict[int, list[PredictionRow]] = defaultdict(list)
    for prediction in predictions:
        binned[bisect_left(bins, len(prediction.untagged_source))].append(prediction)
    return {bin_label(bins, index): binned[index] for index in sorted(binned)}


def bin_label(bins: Sequence[int], index: int) -> str:
    """A bin's label, from its least and greatest length: ``1-4``, ``5``, ``13+``."""
    low = bins[index - 1] + 1 if index else 1
    if index == len(bins):
        return f"{low}+"
    return str(low) if low == bins[index] else f"{low}-{bins[index]}"


def _row(label: str, predictions: Sequence[PredictionRow]) -> LengthErrorRates:
    edits = sum(prediction.edits for prediction in predictions)
    symbols = sum(len(nearest_reference(prediction.output, prediction.references)[1]) for prediction in predictions)
    wrong = sum(prediction.edits > 0 for prediction in predictions)
    return LengthErrorRates(label, len(predictions), 100 * edits / max(symbols, 1), 100 * wrong / len(predictions))
