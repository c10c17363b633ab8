"""An evaluation: tables of errors by length, symbol, confused pair and column, its files, and its README.md."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rapidfuzz.distance import Levenshtein
from rich.table import Table
from rich.text import Text

from attnx.data.features import FeatureScaler
from attnx.errors import UserError
from attnx.files.atomic_files import write_text
from attnx.files.bounded_files import read_arrays
from attnx.files.printable import printable
from attnx.metrics.aligned_errors import Matrix, aligned_errors
from attnx.metrics.nearest_reference import nearest_reference
from attnx.reports.metric_names import COUNTED, TEST, metric_base
from attnx.reports.run.evaluated_examples import LengthErrors, read_examples, sum_lengths
from attnx.reports.run.readme import FILES, files_section
from attnx.reports.run.tables import results_section, results_table
from attnx.reports.significant_digits import format_value
from attnx.runs import layout
from attnx.runs.predictions import (
    Evaluation,
    PredictionRow,
    has_symbol_predictions,
    read_predictions,
    read_table,
    write_symbols,
)

Rows = Sequence[Mapping[str, Any]]
MAX_ROWS_SHOWN = 12  # of a table, in a terminal
EVALUATION_FILES = {
    layout.EVALUATION: "the evaluation: runs, weights, decoding, data",
    **{file: FILES[file] for file in (layout.RESULTS, layout.PREDICTIONS, layout.RESAMPLED, layout.MATRICES)},
    "by_length.tsv": "errors by length of the source in symbols, or of a reference matrix in steps",
    "by_symbol.tsv": "per symbol its count in references, and how often it was substituted, missed, inserted",
    "by_column.tsv": "errors per column, in its units",
    "confusions.tsv": "pairs of symbols, one predicted instead of the other, with counts",
}
# Labels of bins of lengths, by the first and the last length of each.
LENGTH_BINS = {(0, 4): "1-4", (5, 6): "5-6", (7, 8): "7-8", (9, 10): "9-10", (11, 12): "11-12", (13, math.inf): "13+"}


def errors_by_length(errors: Mapping[int, LengthErrors]) -> Rows:
    """Error rates in percent by source length, given the errors of each length."""
    rows = []
    for ends, label in LENGTH_BINS.items():
        if (counts := sum_lengths(errors, ends)).examples:
            rates = {"symbol_error_rate": counts.rate("symbols"), "sequence_error_rate": counts.rate("sequences")}
            rows.append({"length": label, "examples": counts.examples, **rates})
    return rows


def symbol_errors(predictions: Sequence[PredictionRow]) -> dict[str, Rows]:
    """Errors of every symbol of references and outputs, most errors first, and every pair of confused symbols.

    Edits are counted on a shortest path from the nearest reference to the output, the one that rapidfuzz returns.
    """
    references, edits, pairs = Counter[str](), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for row in predictions:
        _, reference = nearest_reference(row.output, row.references)
        references.update(reference)
        for edit in Levenshtein.editops(reference, row.output):
            symbol = row.output[edit.dest_pos] if edit.tag == "insert" else reference[edit.src_pos]
            edits[edit.tag, symbol] += 1
            if edit.tag == "replace":
                pairs[symbol, row.output[edit.dest_pos]] += 1
    rows = []
    for symbol in {*references, *(symbol for _, symbol in edits)}:
        counts = {
            column: edits[name, symbol]
            for column, name in (("substituted", "replace"), ("missed", "delete"), ("inserted", "insert"))
        }
        rows.append({"symbol": symbol, "references": references[symbol], **counts, "errors": sum(counts.values())})
    return {
        "by_symbol": sorted(rows, key=lambda row: (-row["errors"], -row["references"], row["symbol"])),
        "confusions": [
            {"reference": right, "written": written, "times": times}
            for (right, written), times in sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
        ],
    }


def read_matrices(folder: Path) -> list[tuple[Matrix, Matrix]]:
    """Predictions and references, in the order of predictions.tsv; the median, which is first, of several quantiles.

    Raises:
        UserError: the folder has no predictions that are numbers.
    """
    table, file = folder / layout.PREDICTIONS, folder / layout.MATRICES
    if not file.is_file() or not table.is_file():
        raise UserError(f"{file}: no such file; it is written if outputs are numbers")
    arrays = read_arrays(file)
    pairs = [(arrays[row["prediction"]], arrays[row["reference"]]) for row in read_table(table)[1]]
    return [(prediction[:, : reference.shape[1]], reference) for prediction, reference in pairs]


def number_errors_by_length(pairs: Sequence[tuple[Matrix, Matrix]]) -> Rows:
    """Errors of predicted matrices by the steps of their references; length errors in steps."""
    rows = []
    for (first, last), label in LENGTH_BINS.items():
        if not (group := [pair for pair in pairs if first <= len(pair[1]) <= last]):
            continue
        length_error = float(np.mean([abs(len(prediction) - len(reference)) for prediction, reference in group]))
        errors = np.abs(aligned_errors(*zip(*group, strict=True)))
        absolute = {"mean_absolute_error": float(errors.mean())} if len(errors) else {}  # none if outputs are empty
        rows.append({"length": label, "examples": len(group), **absolute, "length_error": length_error})
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


def error_tables(folder: Path) -> dict[str, Rows]:
    """Tables of errors of the predictions in a folder, by name.

    Symbol errors are counted by edits, if the task has an error rate: a translation, or a continued text, that differs
    from a reference is not wrong in these symbols. Numeric errors by length need the metric ``length_error``.

    Raises:
        UserError: the predictions are missing or malformed.
    """
    metrics = [key for key in Evaluation(folder).load().results if key.startswith(TEST)]
    if has_symbol_predictions(folder):
        if not any(metric_base(key, COUNTED) for key in metrics):
            return {}
        by_symbol = symbol_errors(read_predictions(folder))
        return {"by_length": errors_by_length(read_examples(folder).length_errors), **by_symbol}
    pairs = read_matrices(folder)
    scales = folder.parents[1] / layout.VOCABULARY / layout.TARGET_FEATURES
    columns = FeatureScaler.load(scales).columns if scales.is_file() else ()
    by_column = {"by_column": number_errors_by_column(pairs, columns)}
    if any(metric_base(key, ["length_error"]) for key in metrics):
        return {"by_length": number_errors_by_length(pairs), **by_column}
    return by_column


def write_tables(folder: Path, tables: Mapping[str, Rows]) -> None:
    """Write the tables into the folder, each as TSV."""

    def field(value: Any) -> str:
        return write_symbols([value]) if isinstance(value, str) else format(value, ".6g" * isinstance(value, float))

    for name, rows in tables.items():
        lines = [list(rows[0]), *(map(field, row.values()) for row in rows)] if rows else []
        text = "".join("\t".join(line) + "\n" for line in lines)
        write_text(folder / f"{name}.tsv", text)


def write_evaluation_readme(folder: Path, name: str) -> None:
    """Write the folder's README.md from its files; ``name`` is the folder's final name."""
    run, ensemble = Evaluation(folder).load(), ""
    if len(members := run.info["runs"]) > 1:
        names = ", ".join(map(printable, members))
        ensemble = f" An ensemble predicted, by the mean of its {len(members)} runs at each step: {names}."
    sections = [
        f"# {run.info['run']}/{name}",
        f"An evaluation by attnx, {run.info['created']}.{ensemble}",
        f"```sh\n{run.info['command']}\n```",
        results_section(run),
        files_section(run, EVALUATION_FILES),
        "`attnx compare` compares this folder with other evaluations and runs.",
    ]
    write_text(folder / layout.README, "\n\n".join(sections) + "\n")


def terminal_tables(folder: Path, tables: Mapping[str, Rows]) -> list[Table]:
    """The results and the first rows of each table, for a terminal."""
    shown = [results_table(Evaluation(folder).load())]
    for name, rows in tables.items():
        if not rows:
            continue
        title = "most confused" if name == "confusions" else f"errors {name.replace('_', ' ')}"
        table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
        for column, value in rows[0].items():
            table.add_column(column.replace("_", " "), justify="left" if isinstance(value, str) else "right")
        for row in rows[:MAX_ROWS_SHOWN]:
            cells = (value if isinstance(value, str) else format_value(value) for value in row.values())
            table.add_row(*(Text(printable(cell)) for cell in cells))
        if len(rows) > MAX_ROWS_SHOWN:
            table.caption = f"{len(rows) - MAX_ROWS_SHOWN} more in the file"
            table.caption_justify = "left"
        shown.append(table)
    return shown
