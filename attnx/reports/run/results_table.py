"""What a run ends with: a table of test results, and the files written."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from attnx.files.printable import printable
from attnx.reports.measure_names import measure_base
from attnx.reports.run.baseline_verdicts import baseline_verdicts
from attnx.reports.significant_digits import format_interval, format_value
from attnx.runs.run import Run, read_run

UNITS = {
    "test_per": "%  phone error rate",
    "test_wer": "%  word error rate",
    "test_symbol_error_rate": "%  symbol error rate",
    "test_sequence_error_rate": "%  sequence error rate",
    "test_error": "%  wrong answers",
    "test_scaled_error": "0 is right, 1 is the training mean and nothing else",
    "test_mean_absolute_error": "in the data's own units, of the steps that both have",
    "test_root_mean_squared_error": "likewise",
    "test_length_error": "steps too many or too few",
    "test_rse": "root relative squared error of the last step, 1 is the mean alone",
    "test_corr": "correlation of the last step, mean over columns",
    "test_own_mse": "in the data's own units",
    "test_own_mae": "in the data's own units",
    "train_examples_per_second": "examples/s in training",
    "train_seconds": "s of training, validation included",
}


CAPTION = (
    "behind a measure: its 95 % interval, exact where each example is right or wrong, else over other draws of the "
    "test's examples"
)


class ResultRow(NamedTuple):
    """A result as text: its name, its value, its 95 % interval or "", and what there is to say of it or ""."""

    measure: str
    value: str
    interval: str
    remark: str


def outcome(folder: Path) -> Table:
    """The test results of a run, each with its 95 % interval."""
    return results_table(read_run(folder))


def results_table(run: Run) -> Table:
    """The results of a run or an evaluation, each with its 95 % interval, for a terminal."""
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
    """The same as lines of a table in Markdown, its head first."""
    head = ResultRow("measure", "value", "95 % interval", "remark")
    return [_cells(run, row) for row in (head, *result_rows(run))]


def result_rows(run: Run) -> list[ResultRow]:
    """A row for each result, in their order."""
    rows, verdicts = [], baseline_verdicts(run)
    for name, value in run.results.items():
        interval = run.intervals.get(name)
        between = format_interval(*interval) if interval else ""
        rows.append(ResultRow(name, format_value(value, interval), between, _remark(run, name, verdicts.get(name))))
    return rows


def _remark(run: Run, name: str, verdict: str | None) -> str:
    """Of a baseline's measure whether the run beats it; else the unit, or the signature of what computed it."""
    if verdict is not None:
        return f"the run {verdict}"
    return UNITS.get(name) or run.signatures.get(measure_base(name, run.signatures), "")


def _cells(run: Run, row: ResultRow) -> list[str]:
    """A row without the column of intervals where no result has one."""
    return [row.measure, row.value, *([row.interval] if run.intervals else []), row.remark]


def files(folder: Path) -> str:
    """What lies in the folder, on two lines."""
    held = ", ".join(path.name + "/" * path.is_dir() for path in sorted(folder.iterdir()))
    return f"{folder}: start with README.md\n  {held}"
