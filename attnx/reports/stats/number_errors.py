"""Errors of predicted matrices by reference length and by column, from predictions.tsv and .npz."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attnx.errors import UserError
from attnx.files.bounded_arrays import read_arrays
from attnx.metrics.aligned_errors import Matrix, aligned_errors
from attnx.reports.stats.lengths import BINS, bin_label
from attnx.runs.layout import MATRICES, PREDICTIONS
from attnx.runs.predictions import read_table


class LengthRow(NamedTuple):
    """One bin of reference lengths: its examples, their mean absolute error and their mean length error in steps."""

    length: str
    examples: int
    mean_absolute_error: float
    length_error: float


class ColumnRow(NamedTuple):
    """Errors of one column over all examples, in its units."""

    column: str
    mean_absolute_error: float
    root_mean_squared_error: float


def number_errors_by_length(folder: Path | str, bins: Sequence[int] = BINS) -> list[LengthRow]:
    """A row per bin of reference lengths with examples, shortest first.

    Raises:
        UserError: the folder has no predictions that are numbers.
    """
    binned: dict[int, list[tuple[Matrix, Matrix]]] = defaultdict(list)
    for prediction, reference in _read_pairs(folder):
        binned[bisect_left(bins, len(reference))].append((prediction, reference))
    rows = []
    for index, pairs in sorted(binned.items()):
        errors = aligned_errors(*zip(*pairs, strict=True))
        length_error = float(np.mean([abs(len(prediction) - len(reference)) for prediction, reference in pairs]))
        rows.append(LengthRow(bin_label(bins, index), len(pairs), float(np.abs(errors).mean()), length_error))
    return rows


def number_errors_by_column(folder: Path | str, names: Sequence[str] = ()) -> list[ColumnRow]:
    """A row per column of the matrices, in order.

    Args:
        folder: with predictions.tsv and predictions.npz.
        names: of the columns; by default their indices.

    Raises:
        UserError: the folder has no predictions that are numbers.
    """
    pairs = _read_pairs(folder)
    rows = []
    for column in range(pairs[0][1].shape[1] if pairs else 0):
        errors = aligned_errors(*zip(*((y[:, [column]], right[:, [column]]) for y, right in pairs), strict=True))
        if len(errors):  # none if all references are missing
            name = names[column] if names else str(column)
            rows.append(ColumnRow(name, float(np.abs(errors).mean()), float(np.sqrt(np.square(errors).mean()))))
    return rows


def _read_pairs(folder: Path | str) -> list[tuple[Matrix, Matrix]]:
    """Predictions and references, in the order of predictions.tsv; of several quantiles the median, which is first."""
    table, file = Path(folder) / PREDICTIONS, Path(folder) / MATRICES
    if not file.is_file() or not table.is_file():
        raise UserError(f"{file}: no such file; it is written if outputs are numbers")
    arrays = read_arrays(file)
    pairs = [(arrays[row["prediction"]], arrays[row["reference"]]) for row in read_table(table)[1]]
    return [(prediction[:, : reference.shape[1]], reference) for prediction, reference in pairs]
