"""Runs as a CSV table, a row each: a report writes it, and another one reads it without the run folders."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnx.config.groups import PART_GROUPS, SCALARS
from attnx.config.view import DATA, value_text, varied_keys
from attnx.errors import UserError, suggest
from attnx.files.bounded_files import BYTE_ORDER_MARK, MAX_TABLE_BYTES, read_text
from attnx.files.printable import cell_value, csv_text
from attnx.reports.run.evaluated_examples import EvaluatedExamples, LengthErrors
from attnx.reports.sweep.run_record import RunRecord
from attnx.runs.info import RunStatus
from attnx.runs.results import Curve, Interval

FACTS = ("seed", "status", "test", "data", "commit", "machine", "created", "budget", "monitor", "maximize", "error")
DETAILS = ("curve", "length_errors")
SUITE = "suite"  # before what says which suite, task and mechanism a run is of
CHOICE = "config."  # before a choice that has the name of a fact
SIGNATURE = "signature."  # before a metric whose definition a cell holds
LOW, HIGH = "_low", "_high"
CURVE_POINTS = 3  # the last validations
DIGITS = 10  # significant ones; results are measured in single precision


def table_text(records: Sequence[RunRecord], keys: Sequence[str]) -> str:
    """The CSV text: some choices, the facts, all results with their intervals, and the details."""
    keys = [key for key in keys if key != DATA and _is_choice(_column(key))]
    rows = [run_row(record, keys) for record in records if record.status != RunStatus.UNREADABLE]
    choices = [*map(_column, keys)]
    rows = [*{_identity(row, choices): row for row in reversed(rows)}.values()][::-1]  # a copied run is one
    results = dict.fromkeys(name for row in rows for name in row)
    columns = [*choices, *FACTS, *(name for name in results if name not in (*choices, *FACTS, *DETAILS)), *DETAILS]
    return csv_text(columns, rows)


def run_row(run: RunRecord, keys: Sequence[str]) -> dict[str, str]:
    """A run's cells by column."""
    choices = {_column(key): value_text(run.choices[key]) for key in keys if key in run.choices}
    facts = {name: value_text(getattr(run, name)) for name in FACTS}
    facts["seed"] = "" if run.seed is None else str(run.seed)
    results = {name: f"{value:.{DIGITS}g}" for name, value in run.results.items()}
    for name, interval in run.intervals.items():
        results |= {f"{name}{LOW}": f"{interval.low:.{DIGITS}g}", f"{name}{HIGH}": f"{interval.high:.{DIGITS}g}"}
    points = sorted(run.curves.get(run.monitor, {}).items())
    best = (max if run.maximize else min)(points, key=lambda point: point[1], default=None)
    points = [point for point in points if point == best or point in points[-CURVE_POINTS:]]
    lengths = ((length, "/".join(map(str, counts))) for length, counts in run.examples.length_errors.items())
    details = {
        "curve": " ".join(f"{step}:{value:.{DIGITS}g}" for step, value in points),
        "length_errors": " ".join(f"{length}:{counts}" for length, counts in lengths),
    }
    signatures = {f"{SIGNATURE}{name}": text for name, text in run.signatures.items()}
    return choices | facts | results | signatures | details


def read_run_table(path: Path) -> list[RunRecord]:
    """The runs in a table; a run's path is the table's with the line, its label the choices that differ in it.

    Raises:
        UserError: it is no table of runs, a cell cannot be read, or a run is there twice, with the lines.
    """
    csv.field_size_limit(MAX_TABLE_BYTES)  # a cell may be long
    text = read_text(path).removeprefix(BYTE_ORDER_MARK)
    reader = csv.reader(io.StringIO(text, newline=""))
    columns = [*map(cell_value, next(reader, []))]
    for name in (*FACTS, *DETAILS):
        if name not in columns:
            raise UserError(f"{path}:1: not a table of runs: it has no column {name!r}{suggest(name, columns)}")
    choices = [name for name in columns if _is_choice(name)]
    lines: dict[tuple[object, ...], int] = {}
    runs = []
    for cells in reader:
        where = f"{path}:{reader.line_num}"
        if len(cells) != len(columns):
            raise UserError(f"{where}: {len(cells)} cells where {len(columns)} were expected")
        row = dict(zip(columns, map(cell_value, cells), strict=True))
        runs.append(_read_row({name: cell for name, cell in row.items() if cell}, choices, where))
        if (line := lines.setdefault(_identity(row, choices), reader.line_num)) != reader.line_num:
            raise UserError(f"{where}: the same run as in line {line}; delete one of them")
    keys = varied_keys([{**run.choices, **dict.fromkeys(run.lacks)} for run in runs])
    for run in runs:
        run.label = " ".join(f"{key}={run.choices[key]}" for key in keys if key in run.choices)
    return runs


def _read_row(row: dict[str, str], choices: Iterable[str], where: str) -> RunRecord:
    """The run in a row's cells, which are used up, yet without a label; ``choices`` are the columns that hold one.

    What is neither fact, detail, choice nor signature is a result; one that is not finite is left out.
    """
    lacks = tuple(name.removeprefix(CHOICE) for name in choices if name not in row)
    facts: dict[str, Any] = {name: row.pop(name, "") for name in FACTS}
    details = {name: row.pop(name, "") for name in DETAILS}
    values: dict[str, Any] = {name.removeprefix(CHOICE): row.pop(name) for name in choices if name in row}
    signatures = {name.removeprefix(SIGNATURE): row.pop(name) for name in [*row] if name.startswith(SIGNATURE)}
    try:
        results = {name: number for name, cell in row.items() if math.isfinite(number := float(cell))}
        ends = {f"{name}{end}" for name in results for end in (LOW, HIGH)}
        curve: Curve = {step: float(value) for step, value in _split(details["curve"])}
        errors = {length: LengthErrors(*map(int, cell.split("/"))) for length, cell in _split(details["length_errors"])}
        if any(counts.examples < 1 for counts in errors.values()):
            raise ValueError("length_errors: a length counts no example")
        if (maximize := facts["maximize"].casefold()) not in ("true", "false", ""):  # as spreadsheets write it, too
            raise ValueError(f"maximize: {facts['maximize']!r} is neither true nor false")
        if (status := RunStatus(facts["status"])) == RunStatus.UNKNOWN:
            raise ValueError(f"{facts['status']!r} is no status of a run")
        return RunRecord(
            path=Path(where),
            label="",
            status=status,
            seed=int(facts["seed"]) if facts["seed"] else None,
            choices=values,
            results={name: value for name, value in results.items() if name not in ends},
            intervals={
                name: Interval(results[f"{name}{LOW}"], results[f"{name}{HIGH}"])
                for name in results
                if f"{name}{LOW}" in results and f"{name}{HIGH}" in results
            },
            signatures=signatures,
            curves={facts["monitor"]: curve} if curve else {},
            maximize=maximize == "true",
            examples=EvaluatedExamples(digest=facts["test"], length_errors=errors),
            lacks=lacks,
            **{name: facts[name] for name in FACTS if name not in ("seed", "status", "test", "maximize")},
        )
    except (ValueError, TypeError) as error:
        raise UserError(f"{where}: cannot be read: {error}") from None


def _column(key: str) -> str:
    """The column of a choice."""
    return f"{CHOICE}{key}" if key in FACTS else key


def _is_choice(column: str) -> bool:
    """Whether a column is a part or an option, and not a fact or a result."""
    kind = re.split(r"[./]", column.removeprefix(CHOICE))[0]
    return column not in FACTS and kind in (*PART_GROUPS, *SCALARS, "placement", SUITE)


def _identity(row: Mapping[str, str], choices: Iterable[str]) -> tuple[str, ...]:
    """The cells that two runs in a table do not share: choices, seed, test and time."""
    return tuple(row.get(name, "") for name in (*choices, "seed", "test", "created"))


def _split(text: str) -> Iterator[tuple[int, str]]:
    for item in text.split():
        key, _, value = item.partition(":")
        yield int(key), value
