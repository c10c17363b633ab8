"""The results table of a run, and the list of its files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from attnx.files.printable import printable
from attnx.reports.measure_names import measure_base
from attnx.reports.run.baseline_verdicts import baseline_verdicts
from attnx.reports.significant_digits import format_interval, format_value
from attnx.runs.run import Run

UNITS = {
    "test_per": "%  phone error rate",
    "test_wer": "%  word error rate",
    "test_symbol_error_rate": "%  symbol error rate",
    "test_sequence_error_rate": "%  sequence error rate",
    "test_error": "%  wrong answers",
    "test_scaled_error": "0 is perfect, 1 is the training mean",
    "test_mean_absolute_error": "in the data's units, over steps that prediction and reference have",
    "test_root_mean_squared_error": "in the data's units, over steps that prediction and reference have",
    "test_length_error": "steps too many or too few",
    "test_rse": "root relative squared error of the last step, 1 is the mean",
    "test_corr": "correlation of the last step, mean over columns",
    "test_own_mse": "in the data's units",
    "test_own_mae": "in the data's units",
    "train_examples_per_second": "examples/s in training",
    "train_seconds": "s of training, validation included",
}


CAPTION = "95 % confidence intervals: exact for error rates of whole outputs, bootstrap over test examples otherwise"


class ResultRow(NamedTuple):
    """A result as text: metric, value, 95 % interval or "", and unit, signature or comparison with baselines or ""."""

    measure: str
    value: str
    interval: str
    remark: str


def results_table(run: Run) -> Table:
    """The results of a run or an evaluation with 95 % intervals, for a terminal."""
    table = Table(title="results", title_justify="left", show_header=False, pad_edge=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    if run.intervals:
        table.add_column(style="dim", no_wrap=True)
        table.caption, table.caption_justify = CAPTION, "left"
    table.add_column(overflow="fold")
    for row in result_rows(run):
        table.add_row(*(Text(printable(cell)) for cell in _cells(run, row)))
    return table


def result_lines(run: Run) -> list[list[str]]:
    """The cells of a Markdown table of results, its head first."""
    head = ResultRow("measure", "value", "95 % interval", "remark")
    return [_cells(run, row) for row in (head, *result_rows(run))]


def result_rows(run: Run) -> list[ResultRow]:
    """A row per result, in order."""
    rows, verdicts = [], baseline_verdicts(run)
    for name, value in run.results.items():
        interval = run.intervals.get(name)
        text = format_interval(*interval) if interval else ""
        rows.append(ResultRow(name, format_value(value, interval), text, _remark(run, name, verdicts.get(name))))
    return rows


def _remark(run: Run, name: str, verdict: str | None) -> str:
    """The comparison with a baseline, the unit, or the signature of the metric."""
    if verdict is not None:
        return f"the run {verdict}"
    return UNITS.get(name) or run.signatures.get(measure_base(name, run.signatures), "")


def _cells(run: Run, row: ResultRow) -> list[str]:
    """A row, without the interval if no result has one."""
    return [row.measure, row.value, *([row.interval] if run.intervals else []), row.remark]


def file_list(folder: Path) -> str:
    """The files of a folder, on two lines."""
    names = ", ".join(path.name + "/" * path.is_dir() for path in sorted(folder.iterdir()))
    return f"{folder}: start with README.md\n  {names}"
