"""What a run ends with: a table of test results, and the files written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from attnx.printable import printable
from attnx.read_run import read_run
from attnx.reports.draws import read_draws

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
    "train_examples_per_second": "examples/s in training",
    "train_seconds": "s of training, validation included",
}


CAPTION = "behind a measure: where 95 % of other draws of the test's examples have it"


def outcome(folder: Path) -> Table:
    """Test results, and between which two numbers 95 % of other draws of the test's examples have each."""
    run, draws = read_run(folder), read_draws(folder)
    table = Table(title="results", title_justify="left", show_header=False, pad_edge=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    if draws:
        table.add_column(style="dim", no_wrap=True)
        table.caption, table.caption_justify = CAPTION, "left"
    table.add_column(overflow="fold")
    for name, value in run.results.items():
        between = [_between(draws[name]) if name in draws else ""] if draws else []
        table.add_row(Text(printable(name)), format_result(value), *between, UNITS.get(name, ""))
    return table


def _between(drawn: NDArray[np.float64]) -> str:
    low, high = np.percentile(drawn, [2.5, 97.5])
    return f"{low:,.2f} to {high:,.2f}"


def format_result(value: object) -> str:
    """A result as it is written: two digits behind the point, four of small numbers, a dash where nothing was measured.

    >>> format_result(17814.434), format_result(0.00123456), format_result(29243), format_result(None)
    ('17,814.43', '0.001235', '29,243', '-')
    """
    if isinstance(value, float):
        return f"{value:.4g}" if 0 < abs(value) < 1 else f"{value:,.2f}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def files(folder: Path) -> str:
    """What lies in the folder, on two lines."""
    held = ", ".join(path.name + "/" * path.is_dir() for path in sorted(folder.iterdir()))
    return f"{folder}: start with README.md\n  {held}"
