"""Where rows of numbers go wrong: by the length of the reference and by column, from predictions.tsv and .npz."""

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
    """The examples of one bin: how many, their mean absolute error, and steps too many or too few, on average."""

    length: str
    examples: int
    mean_absolute_error: float
    length_error: float


class ColumnRow(NamedTuple):
    """One column over all examples, in its own units."""

    column: str
    mean_absolute_error: float
    root_mean_squared_error: float


def number_errors_by_length(folder: Path | str, bins: Sequence[int] = BINS) -> list[LengthRow]:
    """A row for each bin of reference lengths that holds examples, shortest first.

    Raises:
        UserError: the folder holds no predictions that are numbers.
    """
    binned: dict[int, list[tuple[Matrix, Matrix]]] = defaultdict(list)
    for written, right in _matrices(folder):
        binned[bisect_left(bins, len(right))].append((written, right))
    found = []
    for number in sorted(binned):
        pairs = binned[number]
        absolute = float(np.abs(aligned_errors(*zip(*pairs, strict=True))).mean())
        apart = float(np.mean([abs(len(written) - len(right)) for written, right in pairs]))
        found.append(LengthRow(bin_label(bins, number), len(pairs), absolute, apart))
    return found


def number_errors_by_column(folder: Path | str, names: Sequence[str] = ()) -> list[ColumnRow]:
    """A row for each column of the matrices, in their order.

    Args:
        folder: with predictions.tsv and predictions.npz.
        names: of the columns; without any they are counted from 0.

    Raises:
        UserError: the folder holds no predictions that are numbers.
    """
    pairs = _matrices(folder)
    found = []
    for column in range(pairs[0][1].shape[1] if pairs else 0):
        parts = [(written[:, [column]], right[:, [column]]) for written, right in pairs]
        error = aligned_errors(*zip(*parts, strict=True))
        if not len(error):  # nobody measured it
            continue
        name = names[column] if names else str(column)
        found.append(ColumnRow(name, float(np.abs(error).mean()), float(np.sqrt(np.square(error).mean()))))
    return found


def _matrices(folder: Path | str) -> list[tuple[Matrix, Matrix]]:
    """What was written and what is right, in the order of the table."""
    table, file = Path(folder) / PREDICTIONS, Path(folder) / MATRICES
    if not file.is_file() or not table.is_file():
        raise UserError(f"{file}: no such file; it is written where outputs are numbers")
    _, rows = read_table(table)
    held = read_arrays(file)
    pairs = [(held[row["prediction"]], held[row["reference"]]) for row in rows]
    # Of several quantiles the median stands first.
    return [(written[:, : right.shape[1]], right) for written, right in pairs]
