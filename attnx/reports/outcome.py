"""What a run ends with: a table of test results, and the files written."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from attnx.read_run import read_run

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
    "train_words_per_second": "words/s in training",
    "train_seconds": "s of training, validation included",
}


def outcome(folder: Path) -> Table:
    """Test results."""
    run = read_run(folder)
    table = Table(title="results", title_justify="left", show_header=False, pad_edge=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in run.results.items():
        table.add_row(name, _said(value), UNITS.get(name, ""))
    return table


def _said(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"


def files(folder: Path) -> str:
    """What lies in the folder, on two lines."""
    held = ", ".join(path.name + "/" * path.is_dir() for path in sorted(folder.iterdir()))
    return f"{folder}: start with README.md\n  {held}"
