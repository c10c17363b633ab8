"""Shows runs: a table as wide as the terminal, the same in plain text for pipes, and everything as JSON or CSV."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.filesize import decimal
from rich.segment import Segment, Segments
from rich.style import Style
from rich.text import Text

from attnx.config.view import value_text, varied_keys
from attnx.files.printable import csv_text, printable, printable_json, text_for
from attnx.reports.run_filters import options_of
from attnx.reports.significant_digits import format_value
from attnx.runs.run import Run
from attnx.sweeps.summary import STATUS_STYLES, format_duration

ABSENT = "-"
GAP = 2
# Keys that change nothing that is computed, or have a column of their own.
HIDDEN_KEYS = ("folder", "logger", "seed")
# Characters that a path keeps where there is no room.
MIN_PATH_WIDTH = 24
RANKS = {"run": 0, "status": 1, "test": 2, "valid": 3, "choice": 4, "created": 5, "duration": 6, "size": 7, "seed": 8}


class Column(NamedTuple):
    """A column; high ranks are left out first where there is no room; ``best`` are the rows in bold."""

    name: str
    cells: list[str]
    rank: float
    right: bool = False
    best: frozenset[int] = frozenset()

    @property
    def width(self) -> int:
        """The width of its widest cell."""
        return max(map(cell_len, [self.name, *self.cells]))


def print_columns(columns: Sequence[Column]) -> None:
    """Print columns: those there is room for in a terminal, else all in plain text."""
    console = Console()
    hidden: list[Column] = []
    columns = [
        column._replace(name=printable(column.name), cells=list(map(printable, column.cells))) for column in columns
    ]
    if console.is_terminal:
        columns, hidden = fit_columns(columns, console.width)
    widths, segments = [column.width for column in columns], []  # a rich table takes seconds for a thousand runs
    for row in range(-1, len(columns[0].cells)):
        for column, width in zip(columns, widths, strict=True):
            cell = column.name if row < 0 else column.cells[row]
            bold = "bold" if row < 0 or row in column.best else ""
            style = STATUS_STYLES.get(cell, bold) if column.name == "status" else bold
            space = " " * (width - cell_len(cell))
            is_last = column is columns[-1]
            text = space + cell if column.right else cell if is_last else cell + space
            segments += [Segment(text, Style.parse(style)), Segment("\n" if is_last else " " * GAP)]
    console.print(Segments(segments), end="", crop=False)
    if hidden:
        names = ", ".join(column.name for column in hidden)
        console.print(Text(f"no room for {names}: widen the terminal, or add --csv or --json", "dim"))


def fit_columns(columns: Sequence[Column], width: int) -> tuple[list[Column], list[Column]]:
    """The columns that fit into a width, and the hidden ones; paths are shortened, and the first two always stay."""
    path, *columns = columns
    path_width = min(path.width, MIN_PATH_WIDTH)
    room, names = width - path_width, []
    for column in sorted(columns, key=lambda column: column.rank):
        if column.width + GAP <= room or column.rank <= RANKS["status"]:
            room -= column.width + GAP
            names.append(column.name)
    width = max(room + path_width, MIN_PATH_WIDTH)
    path = path._replace(cells=[cell if len(cell) <= width else "…" + cell[1 - width :] for cell in path.cells])
    shown = [path, *(column for column in columns if column.name in names)]
    return shown, [column for column in columns if column.name not in names]


def columns_of(runs: Sequence[Run]) -> list[Column]:
    """The columns of a table of runs, with the options in which they differ."""

    def column(name: str, text: Callable[[Any], str], value: Callable[[Run], Any], right: bool = False) -> Column:
        return Column(name, [ABSENT if item is None else text(item) for item in map(value, runs)], RANKS[name], right)

    def cells(key: str) -> list[str]:
        return [value_text(values[key]) if key in values else ABSENT for values in options]

    options = [options_of(run) for run in runs]
    keys = [key for key in varied_keys(options) if key.split(".")[0] not in HIDDEN_KEYS]
    return [
        column("run", str, lambda run: run.path),
        column("status", str, lambda run: run.status),
        *_metric_columns(runs),
        *(Column(key, cells(key), RANKS["choice"] + i / 1000) for i, key in enumerate(keys)),
        column("seed", str, lambda run: options_of(run).get("seed"), right=True),
        column("created", value_text, lambda run: run.created),
        column("duration", format_duration, lambda run: run.train_seconds, right=True),
        column("size", decimal, lambda run: run.disk_usage.size, right=True),
    ]


def _metric_columns(runs: Sequence[Run]) -> list[Column]:
    """A column for each test metric, and one for its validation where some of the runs were not tested."""
    columns: list[Column] = []
    for monitor, maximize in dict.fromkeys((run.monitor, run.maximize) for run in runs if run.monitor):
        group = {row: run for row, run in enumerate(runs) if (run.monitor, run.maximize) == (monitor, maximize)}
        tested = {row: run.results.get(run.test_metric) for row, run in group.items()}
        name = next(iter(group.values())).test_metric
        if any(value is not None for value in tested.values()):
            columns.append(_metric_column(name, tested, len(runs), maximize, RANKS["test"]))
        if any(value is None for value in tested.values()):
            best = {row: run.progress.best for row, run in group.items()}
            columns.append(_metric_column(monitor, best, len(runs), maximize, RANKS["valid"]))
    return columns


def _metric_column(name: str, values: Mapping[int, Any], rows: int, maximize: bool, rank: float) -> Column:
    numbers = {row: value for row, value in values.items() if value is not None}
    best = (max if maximize else min)(numbers.values(), default=None)
    best_rows = frozenset(row for row, value in numbers.items() if value == best) if len(numbers) > 1 else frozenset()
    cells = [format_value(float(numbers[row])) if row in numbers else ABSENT for row in range(rows)]
    return Column(name, cells, rank, True, best_rows)


def print_json(runs: Sequence[Run]) -> None:
    """Print runs as JSON: their facts, results and configurations; null for numbers that JSON does not know."""
    rows = json.dumps([{**facts_of(run), "results": run.results, "config": run.config} for run in runs], default=str)
    finite = json.loads(rows, parse_constant=lambda name: None)
    print(printable_json(json.dumps(finite, indent=2, ensure_ascii=False)))


def print_csv(runs: Sequence[Run]) -> None:
    """Print runs as CSV, with a column for each fact, each result and each dotted key of their configurations."""
    rows = [{**facts_of(run), **run.results, **options_of(run)} for run in runs]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = ({key: "" if value is None else value_text(value) for key, value in row.items()} for row in rows)
    print(text_for(sys.stdout, csv_text(columns, cells)), end="")


def facts_of(run: Run) -> dict[str, Any]:
    """The facts of a run other than its results and configuration; times in ISO 8601."""
    return {
        "path": str(run.path),
        "name": run.info.get("name"),
        "status": run.status,
        "created": run.created and f"{run.created:%Y-%m-%dT%H:%M:%S%z}",
        "duration": run.train_seconds,
        "size": run.disk_usage.size,
        "monitor": run.monitor or None,
        "maximize": run.maximize,
        "best": run.progress.best,
    }
