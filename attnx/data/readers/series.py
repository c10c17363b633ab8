"""Tables of time series: columns by name, times in order; what is missing or irregular is told with its line."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attnx.data.readers.lines import read_lines
from attnx.data.readers.parquet_file import parquet_table
from attnx.errors import UserError, suggest
from attnx.files.parse_number import is_number
from attnx.files.printable import quoted

Numbers = npt.NDArray[np.float64]
Rows = Sequence[Sequence[Any]]
Table = tuple[list[str], Rows, Sequence[int]]
# What stands for a value that nobody measured.
MISSING = ("", "nan", "na", "n/a", "null", "none", "?")
# What is hardly the name of a column: a number with a fraction or an exponent, or a date.
MEASURED = re.compile(r"[-+]?(\d+\.\d*|\.\d+|\d+(?=e))(e[-+]?\d+)?|\d{4}[-/]\d\d?[-/]\d\d?([ T].*)?", re.IGNORECASE)


class Series(NamedTuple):
    """One series, a row a step.

    Attributes:
        name: what the group column calls it; "" without one.
        numbers: (s, c); NaN where a value is missing.
        columns: the name of each column.
        times: (s,) seconds, or whatever number the time column counts; without one the numbers of the steps.
        labels: each step's time as the file writes it, for people.
        missing: (s, c) bool, which of the numbers nobody measured, once they are filled in; None if that is unknown.
    """

    name: str
    numbers: Numbers
    columns: tuple[str, ...]
    times: Numbers
    labels: tuple[str, ...]
    missing: npt.NDArray[np.bool_] | None = None

    def of(self, names: Sequence[str], start: int, end: int) -> Numbers:
        """(end - start, len(names)) the columns of these names, from one step up to another."""
        return self.numbers[start:end, [self.columns.index(name) for name in names]]

    def measured(self, names: Sequence[str], start: int, end: int) -> Numbers:
        """As :meth:`of`, with NaN in the place of what was filled in."""
        found = self.of(names, start, end)
        if self.missing is None:
            return found
        return np.where(self.missing[start:end, [self.columns.index(name) for name in names]], np.nan, found)


def read_series(
    path: Path,
    time: str | None,
    columns: Sequence[str],
    group: str | None = None,
    has_header: bool | None = None,
) -> list[Series]:
    """Read the series of a .csv (also .csv.gz) or .parquet file.

    Args:
        path: the file.
        time: the column of the times; None if the rows are simply in order.
        columns: those to read; none named, all but the time's and the group's.
        group: the column that says which series a row belongs to; None if there is one series.
        has_header: whether the first row names the columns; without names they are called 1, 2 and so on. None if the
            first row is to say so itself: one that may be data is refused.

    Raises:
        UserError: ``file:line: what is wrong``: text where a number belongs, a time that is none, comes twice or goes
            back; or the file cannot be read, or has no such column.
    """
    header, rows, lines = _parquet(path, has_header) if path.suffix == ".parquet" else _csv(path, has_header)
    if not header:
        raise UserError(f"{path}: holds no header")
    if twice := [name for name in header if header.count(name) > 1]:
        raise UserError(f"{path}:1: the column {twice[0]!r} is there twice; give each a name of its own")
    named = [name for name in (time, group) if name is not None]
    if "" in header and not columns:
        raise UserError(f"{path}:1: column {header.index('') + 1} has no name; give it one, or name task.targets")
    for name in [*named, *columns]:
        if name not in header:
            raise UserError(f"{path}: has no column {name!r}{suggest(name, header)}")
    if not rows:
        raise UserError(f"{path}: holds no rows")
    kept = tuple(columns) or tuple(name for name in header if name not in named)
    members: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        members.setdefault("" if group is None else str(row[header.index(group)]).strip(), []).append(number)
    return [
        _series(name, path, header, [rows[k] for k in numbers], [lines[k] for k in numbers], time, kept)
        for name, numbers in members.items()
    ]


def _series(
    name: str, path: Path, header: list[str], rows: Rows, lines: Sequence[int], time: str | None, kept: tuple[str, ...]
) -> Series:
    where = [f"{path}:{line}" for line in lines]
    places = [header.index(column) for column in kept]
    numbers = np.array(
        [[_number(row[place], header[place], at) for place in places] for row, at in zip(rows, where, strict=True)]
    )
    if time is None:
        return Series(name, numbers, kept, np.arange(len(rows), dtype=np.float64), tuple(map(str, range(len(rows)))))
    labels = tuple(str(row[header.index(time)]).strip() for row in rows)
    times = np.array([when(label, at) for label, at in zip(labels, where, strict=True)])
    _refuse_disorder(times, labels, where)
    return Series(name, numbers, kept, times, labels)


def _csv(path: Path, has_header: bool | None) -> Table:
    rows: list[list[str]] = []
    lines: list[int] = []
    for number, line in read_lines(path, "CSV"):
        if not line.strip():
            continue
        try:
            fields = [field.strip() for field in next(csv.reader([line]))]
        except csv.Error as error:
            raise UserError(f"{path}:{number}: is no line of a CSV file: {error}") from error
        if rows and len(fields) != len(rows[0]):
            raise UserError(
                f"{path}:{number}: {len(fields)} columns, but the first row has {len(rows[0])}: {quoted(line)}"
            )
        rows.append(fields)
        lines.append(number)
    if rows and has_header is None:
        _refuse_data_as_header(rows[:2], f"{path}:{lines[0]}")
    if rows and has_header is False:
        return [str(place) for place in range(1, len(rows[0]) + 1)], rows, lines
    return (rows[0] if rows else []), rows[1:], lines[1:]


def _refuse_data_as_header(rows: Sequence[Sequence[str]], where: str) -> None:
    """Refuse a first row that may be data, which would be lost in silence.

    A number with a fraction and a date are hardly what a column is called. A whole number may be, beside columns whose
    first cell is a text and whose second is none.

    Args:
        rows: the first and the second, if there is one.
        where: the place of the first.

    Raises:
        UserError: it may be.
    """
    first, *others = rows
    pairs = [pair for row in others for pair in zip(first, row, strict=True)]
    named = any(cell.lower() not in MISSING and not _is_data(cell) and _is_data(below) for cell, below in pairs)
    if any(map(MEASURED.fullmatch, first)) or (any(map(is_number, first)) and not named):
        raise UserError(
            f"{where}: the first row may be data or names of columns ({quoted(','.join(first))}); write "
            "task.header=false if it is data (columns are then called 1, 2, ...), task.header=true if it is names"
        )


def _is_data(cell: str) -> bool:
    return is_number(cell) or MEASURED.fullmatch(cell) is not None


def _parquet(path: Path, has_header: bool | None) -> Table:
    """A line of a Parquet file is the number of its row, from 1.

    Raises:
        UserError: it is said whether there is a header.
    """
    if has_header is not None:
        raise UserError(f"{path}: a .parquet file names its columns; leave task.header={str(has_header).lower()} out")
    table = parquet_table(path)
    columns = [table[name].to_pylist() for name in table.column_names]
    rows = list(zip(*columns, strict=True))
    return list(table.column_names), rows, range(1, len(rows) + 1)


def _number(field: Any, column: str, where: str) -> float:
    if field is None or (isinstance(field, str) and field.lower() in MISSING):
        return np.nan
    try:
        number = float(field)
    except (TypeError, ValueError):
        raise UserError(
            f"{where}: {quoted(str(field))} in column {column!r} is no number; leave it empty if it is missing, or "
            "leave the column out of task.targets and task.known"
        ) from None
    if np.isinf(number):
        raise UserError(f"{where}: column {column!r} holds infinity; leave it empty if it is missing")
    return number


def when(label: str, where: str) -> float:
    """A time as seconds (ISO 8601), or a plain number as it is."""
    try:
        return float(label)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(label)
    except ValueError:
        raise UserError(
            f"{where}: {quoted(label)} is no time; expected 2016-07-01 00:00:00 (ISO 8601) or a number"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _refuse_disorder(times: Numbers, labels: Sequence[str], places: Sequence[str]) -> None:
    steps = np.diff(times)
    if len(wrong := np.flatnonzero(steps <= 0)):
        here = int(wrong[0]) + 1
        what = "comes twice" if steps[here - 1] == 0 else f"comes after {labels[here - 1]}"
        raise UserError(f"{places[here]}: the time {labels[here]} {what}; sort the rows, and keep one of each time")


def irregular(series: Series) -> list[str]:
    """A line for people on steps that are not the usual one apart; none if all are."""
    steps = np.diff(series.times)
    usual = float(np.median(steps)) if len(steps) else 0.0
    odd = np.flatnonzero(np.abs(steps - usual) > 1e-6 * max(abs(usual), 1.0))
    if not len(odd):
        return []
    return [
        f"{len(odd):,} of {len(steps):,} steps{_whose(series)} are not {usual:g} apart as the others are, the first "
        f"after {series.labels[int(odd[0])]}; they are taken as they come"
    ]


def filled(series: Series) -> tuple[Series, list[str]]:
    """Fill what is missing with the last value before it, which is known by then; at the start with the first there is.

    No window is forecast from before that first one (:meth:`attnx.data.windows.WindowSpec.worth`).

    Returns:
        the series, and a line for people on each column that had gaps.

    Raises:
        UserError: a column holds nothing at all.
    """
    found, notes = series.numbers.copy(), []
    for place, column in enumerate(series.columns):
        there = np.flatnonzero(~np.isnan(found[:, place]))
        if not len(there):
            raise UserError(f"the column {column!r}{_whose(series)} holds no value at all; leave it out")
        if len(there) < len(found):
            last = np.maximum(np.searchsorted(there, np.arange(len(found)), side="right") - 1, 0)
            found[:, place] = found[there[last], place]
            missing = len(found) - len(there)
            notes.append(f"{missing:,} missing values of {column}{_whose(series)} are read as the last ones before")
    return series._replace(numbers=found, missing=np.isnan(series.numbers)), notes


def constant(series: Series) -> list[str]:
    """A line for people on each column that never changes; none if all do."""
    still = series.numbers.min(0) == series.numbers.max(0)
    return [
        f"the column {column}{_whose(series)} never changes"
        for column, at in zip(series.columns, still, strict=True)
        if at
    ]


def _whose(series: Series) -> str:
    return f" of {series.name}" if series.name else ""
