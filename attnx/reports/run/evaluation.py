"""Tables, files and README.md of an evaluation: metrics, and errors by length, symbol or column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from attnx.data.features import FeatureScaler
from attnx.files.atomic_files import write_json, write_text
from attnx.files.printable import printable
from attnx.reports.metric_names import COUNTED, TEST, metric_base
from attnx.reports.run.error_tables import (
    Rows,
    confusions,
    errors_by_length,
    errors_by_symbol,
    number_errors_by_column,
    number_errors_by_length,
    read_matrices,
)
from attnx.reports.run.readme import FILES, files_section
from attnx.reports.run.tables import results_section, results_table
from attnx.reports.run.task_declarations import captions
from attnx.reports.significant_digits import format_value
from attnx.runs import layout
from attnx.runs.predictions import Evaluation, has_symbol_predictions, read_predictions
from attnx.runs.table_fields import write_symbols

MAX_ROWS_SHOWN = 12  # of a table, in a terminal
EVALUATION_FILES = {
    layout.EVALUATION: "the evaluation: runs, weights, decoding, data",
    **{file: FILES[file] for file in (layout.RESULTS, layout.PREDICTIONS, layout.RESAMPLED, layout.MATRICES)},
    "by_length.tsv": "errors by length of the source in symbols, or of a reference matrix in steps",
    "by_symbol.tsv": "per symbol its count in references, and how often it was substituted, missed, inserted",
    "by_column.tsv": "errors per column, in its units",
    "confusions.tsv": "pairs of symbols, one predicted instead of the other, with counts",
    layout.ERRORS_JSON: "these tables as JSON",
}


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
        rows = read_predictions(folder)
        tables = {"by_length": errors_by_length(rows), "by_symbol": errors_by_symbol(rows)}
        return {**tables, "confusions": confusions(rows)}
    pairs = read_matrices(folder)
    scales = folder.parents[1] / layout.VOCABULARY / layout.TARGET_FEATURES
    columns = FeatureScaler.load(scales).columns if scales.is_file() else ()
    by_column = {"by_column": number_errors_by_column(pairs, columns)}
    if any(metric_base(key, ["length_error"]) for key in metrics):
        return {"by_length": number_errors_by_length(pairs), **by_column}
    return by_column


def write_tables(folder: Path, tables: Mapping[str, Rows]) -> None:
    """Write the tables into the folder, each as TSV and all as ``errors.json``."""
    for name, rows in tables.items():
        lines = [list(rows[0]), *(map(_field, row.values()) for row in rows)] if rows else []
        text = "".join("\t".join(line) + "\n" for line in lines)
        write_text(folder / f"{name}.tsv", text)
    write_json(folder / layout.ERRORS_JSON, tables, indent=1)


def write_evaluation_readme(folder: Path, name: str) -> None:
    """Write the folder's README.md from its files; ``name`` is the folder's final name."""
    run = Evaluation(folder).load()
    sections = [
        f"# {run.info['run']}/{name}",
        f"An evaluation by attnx, {run.info['created']}.{_ensemble_sentence(run.info['runs'])}",
        f"```sh\n{run.info['command']}\n```",
        results_section(run),
        files_section(folder, {**EVALUATION_FILES, **captions(run)}),
        "`attnx compare` compares this folder with other evaluations and runs.",
    ]
    write_text(folder / layout.README, "\n\n".join(sections) + "\n")


def _ensemble_sentence(members: Sequence[str]) -> str:
    """Names the runs of an ensemble; "" for one run."""
    if len(members) == 1:
        return ""
    names = ", ".join(map(printable, members))
    return f" An ensemble predicted, by the mean of its {len(members)} runs at each step: {names}."


def terminal_tables(folder: Path, tables: Mapping[str, Rows]) -> list[Table]:
    """The results and the first rows of each table, for a terminal."""
    results = results_table(Evaluation(folder).load())
    return [results, *(_table(name, rows) for name, rows in tables.items() if rows)]


def _table(name: str, rows: Rows) -> Table:
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
    return table


def _field(value: Any) -> str:
    if isinstance(value, str):
        return write_symbols([value])
    return f"{value:.6g}" if isinstance(value, float) else str(value)
