"""Tables of errors of predictions: by length, by symbol, by confused pair, and by column of numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from attnx.errors import UserError
from attnx.files.bounded_files import read_arrays
from attnx.metrics.aligned_errors import Matrix, aligned_errors
from attnx.metrics.nearest_reference import nearest_reference
from attnx.reports.metric_names import COUNTED
from attnx.runs.layout import MATRICES, PREDICTIONS
from attnx.runs.predictions import PredictionRow, read_table

Rows = Sequence[Mapping[str, Any]]
Item = TypeVar("Item")
# Labels of length bins, by the greatest length of each.
LENGTH_BINS = {4: "1-4", 6: "5-6", 8: "7-8", 10: "9-10", 12: "11-12", math.inf: "13+"}


def group_by_length(items: Iterable[Item], length: Callable[[Item], int]) -> dict[str, list[Item]]:
    """The items of each length bin with any, by its label, shortest first."""
    groups: dict[str, list[Item]] = {label: [] for label in LENGTH_BINS.values()}
    for item in items:
        groups[next(label for longest, label in LENGTH_BINS.items() if length(item) <= longest)].append(item)
    return {label: group for label, group in groups.items() if group}


def group_by_source_length(predictions: Iterable[PredictionRow]) -> dict[str, list[PredictionRow]]:
    """Predictions by the number of source symbols, language tags aside."""
    return group_by_length(predictions, lambda row: len(row.untagged_source))


def count_errors(predictions: Sequence[PredictionRow], metric: str) -> NDArray[np.int64]:
    """(n, 2) the errors of each example, and the number they are divided by, for the rate ``per`` or ``wer``.

    Rates of symbols count edits and the symbols of the closest reference; rates of sequences 1 if there is an edit,
    and 1.
    """
    if COUNTED[metric] == "sequences":
        counts = [(int(row.edits > 0), 1) for row in predictions]
    else:
        counts = [(row.edits, len(reference)) for row, reference in _with_references(predictions)]
    return np.array(counts, dtype=np.int64).reshape(-1, 2)


def errors_by_length(predictions: Sequence[PredictionRow]) -> Rows:
    """Error rates in percent by source length."""
    rows = []
    for length, group in group_by_source_length(predictions).items():
        (edits, symbols), (wrong, _) = (count_errors(group, metric).sum(0).tolist() for metric in ("per", "wer"))
        rates = {"symbol_error_rate": 100 * edits / max(symbols, 1), "sequence_error_rate": 100 * wrong / len(group)}
        rows.append({"length": length, "examples": len(group), **rates})
    return rows


def errors_by_symbol(predictions: Sequence[PredictionRow]) -> Rows:
    """Errors of every symbol of references and outputs, most errors first.

    Edits are those of a shortest path from the nearest reference to the output; of several, the one rapidfuzz returns.
    """
    references = Counter(symbol for _, reference in _with_references(predictions) for symbol in reference)
    edits = Counter((name, written if name == "insert" else right) for name, right, written in _edits(predictions))
    rows = []
    for symbol in {*references, *(symbol for name, symbol in edits if name == "insert")}:
        counts = {
            column: edits[name, symbol]
            for column, name in (("substituted", "replace"), ("missed", "delete"), ("inserted", "insert"))
        }
        rows.append({"symbol": symbol, "references": references[symbol], **counts, "errors": sum(counts.values())})
    return sorted(rows, key=lambda row: (-row["errors"], -row["references"], row["symbol"]))


def confusions(predictions: Sequence[PredictionRow]) -> Rows:
    """Every pair of confused symbols, the most frequent first."""
    pairs = Counter((right, written) for name, right, written in _edits(predictions) if name == "replace")
    return [
        {"reference": right, "written": written, "times": times}
        for (right, written), times in sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    ]


def _with_references(predictions: Iterable[PredictionRow]) -> Iterator[tuple[PredictionRow, Sequence[str]]]:
    """Each prediction with its nearest reference."""
    return ((row, nearest_reference(row.output, row.references)[1]) for row in predictions)


def _edits(predictions: Iterable[PredictionRow]) -> Iterator[tuple[str, str, str]]:
    """Each edit's name, its reference symbol and its output symbol; "" for an empty side."""
    for row, reference in _with_references(predictions):
        for edit in Levenshtein.editops(reference, row.output):
            right = reference[edit.src_pos] if edit.tag != "insert" else ""
            yield edit.tag, right, row.output[edit.dest_pos] if edit.tag != "delete" else ""


def read_matrices(folder: Path) -> list[tuple[Matrix, Matrix]]:
    """Predictions and references, in the order of predictions.tsv; of several quantiles the median, which is first.

    Raises:
        UserError: the folder has no predictions that are numbers.
    """
    table, file = folder / PREDICTIONS, folder / MATRICES
    if not file.is_file() or not table.is_file():
        raise UserError(f"{file}: no such file; it is written if outputs are numbers")
    arrays = read_arrays(file)
    pairs = [(arrays[row["prediction"]], arrays[row["reference"]]) for row in read_table(table)[1]]
    return [(prediction[:, : reference.shape[1]], reference) for prediction, reference in pairs]


def number_errors_by_length(pairs: Sequence[tuple[Matrix, Matrix]]) -> Rows:
    """Errors of predicted matrices by the steps of their references; length errors in steps."""
    rows = []
    for length, group in group_by_length(pairs, lambda pair: len(pair[1])).items():
        length_error = float(np.mean([abs(len(prediction) - len(reference)) for prediction, reference in group]))
        errors = np.abs(aligned_errors(*zip(*group, strict=True)))
        absolute = {"mean_absolute_error": float(errors.mean())} if len(errors) else {}  # none if outputs are empty
        rows.append({"length": length, "examples": len(group), **absolute, "length_error": length_error})
    return rows


def number_errors_by_column(pairs: Sequence[tuple[Matrix, Matrix]], names: Sequence[str] = ()) -> Rows:
    """Errors of each column over all examples, in its units; without names columns go by their indices."""
    rows = []
    for column in range(pairs[0][1].shape[1] if pairs else 0):
        errors = aligned_errors(*zip(*((y[:, [column]], right[:, [column]]) for y, right in pairs), strict=True))
        if len(errors):  # none if all references are missing
            means = {
                "mean_absolute_error": float(np.abs(errors).mean()),
                "root_mean_squared_error": float(np.sqrt(np.square(errors).mean())),
            }
            rows.append({"column": names[column] if names else str(column), **means})
    return rows
