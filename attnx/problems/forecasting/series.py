"""Time series: read from .csv tables, and those of a run's test split, saved for figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from attnx.data.readers.columns import header_note
from attnx.data.readers.feature_matrices import GAPS
from attnx.data.readers.lines import read_csv_rows, reject_duplicate_columns
from attnx.errors import UserError, suggest
from attnx.files.atomic_files import write_arrays
from attnx.files.bounded_files import read_arrays
from attnx.files.parse_number import is_number
from attnx.files.printable import quoted

from .times import parse_date, parse_times

Numbers = npt.NDArray[np.float64]
TEST_SERIES: Final = "test_series.npz"
SAVED_FIELDS: Final = ("name", "numbers", "columns", "times", "labels")
CHECKED_ROWS = 20
# Texts of missing values.
MISSING = frozenset(("", *GAPS))
LARGEST = float(np.finfo(np.float32).max)
# A step is unlike the usual one if it is longer or shorter by this share; months differ by less.
UNUSUAL_STEP = 0.5


class SeriesRow(NamedTuple):
    """A row of a table."""

    location: str  # ``file:line``
    label: str  # its time as written in the file
    numbers: Numbers  # (c,) a value of each column


class Series(NamedTuple):
    """One series, a row per step."""

    name: str  # value of the group column; "" without one
    numbers: Numbers  # (s, c); missing values are NaN
    columns: tuple[str, ...]  # name of each column
    times: Numbers  # (s,) seconds, or the numbers of the time column; without one the indices of the steps
    labels: tuple[str, ...]  # each step's time as written in the file
    # (s, c) bool, True for values that were missing before they were filled; None if unknown
    missing_mask: npt.NDArray[np.bool_] | None = None

    @property
    def has_dates(self) -> bool:
        """Whether its times are dates; else they are numbers."""
        return bool(self.labels) and parse_date(self.labels[0]) is not None

    @property
    def usual_step(self) -> float | None:
        """The median of its steps; None if it has none."""
        return float(np.median(np.diff(self.times))) if len(self.times) > 1 else None

    def part(self, names: Sequence[str], start: int, end: int) -> Series:
        """These columns from step ``start`` up to ``end``."""
        missing_mask = None if self.missing_mask is None else self.missing_mask[start:end, self._places(names)]
        times, labels = self.times[start:end], self.labels[start:end]
        return Series(self.name, self.values(names, start, end), tuple(names), times, labels, missing_mask)

    def _places(self, names: Sequence[str]) -> list[int]:
        return [self.columns.index(name) for name in names]

    def values(self, names: Sequence[str], start: int, end: int) -> Numbers:
        """(end - start, len(names)) values of these columns, from step ``start`` up to ``end``."""
        return self.numbers[start:end, self._places(names)]

    def measured_values(self, names: Sequence[str], start: int, end: int) -> Numbers:
        """As :meth:`values`, but filled values are NaN."""
        values = self.values(names, start, end)
        if self.missing_mask is None:
            return values
        return np.where(self.missing_mask[start:end, self._places(names)], np.nan, values)


def read_series(
    path: Path,
    time: str | None,
    columns: Sequence[str],
    group: str | None = None,
    has_header: bool | None = None,
    notes: list[str] | None = None,
) -> list[Series]:
    """Read the series of a .csv file, which may be packed.

    Args:
        path: the file.
        time: column of the times; None if rows are in order without one.
        columns: columns to read; if empty, all but time and group.
        group: column with the name of a row's series; None for one series.
        has_header: whether the first row names the columns; None to infer it, a row that may be data is then an error.
        notes: gets a note on a first row that is taken for names.

    Raises:
        UserError: ``file:line: problem``: text instead of a number, or an invalid, duplicate or decreasing time; or the
            file cannot be read, or lacks a column, or a column that is not named has dates.
    """
    lines = ((f"{path}:{line_number}", fields) for line_number, fields in read_csv_rows(path))
    first = list(islice(lines, 1 + CHECKED_ROWS))
    where, header = first[0] if first else (str(path), [])
    if has_header is None and first:
        _check_header([fields for _, fields in first[:2]], where)
    if has_header is False:
        header = [str(column_number) for column_number in range(1, len(header) + 1)]
    else:
        del first[:1]
    key_columns = [name for name in (time, group) if name is not None]
    _check_columns(path, where, header, key_columns, columns)
    if not first:
        raise UserError(f"{path}: holds no rows")
    value_columns = tuple(columns) or tuple(name for name in header if name not in key_columns)
    places = [header.index(name) for name in value_columns]
    for name, place in zip(value_columns, places, strict=True):
        # Dates may have digits alone, and nobody named the column as one of values.
        if not columns and all(parse_date(fields[place]) for _, fields in first):
            raise UserError(
                f"{path}: the column {name!r} has dates, such as {first[0][1][place]}; set task.time_column={name} if "
                "they are the rows' times, or name task.target_columns without it"
            )
    if notes is not None and has_header is None:
        notes.append(header_note(path, header, ","))
    time_place, group_place = (None if name is None else header.index(name) for name in (time, group))
    groups: defaultdict[str, list[SeriesRow]] = defaultdict(list)
    for location, fields in chain(first, lines):
        # As numbers at once: the texts of a file take ten times their memory.
        numbers = np.array([_parse_value(fields[place], header[place], location) for place in places])
        label = "" if time_place is None else fields[time_place]
        groups["" if group_place is None else fields[group_place]].append(SeriesRow(location, label, numbers))
    return [_make_series(name, rows, time is not None, value_columns) for name, rows in groups.items()]


def _check_columns(
    path: Path, where: str, header: list[str], key_columns: Sequence[str], columns: Sequence[str]
) -> None:
    if not header:
        raise UserError(f"{path}: holds no header")
    reject_duplicate_columns(where, header)
    if "" in header and not columns:
        raise UserError(f"{where}: column {header.index('') + 1} has no name; give it one, or name task.target_columns")
    for name in [*key_columns, *columns]:
        if name not in header:
            raise UserError(f"{path}: has no column {name!r}{suggest(name, header)}")


def _make_series(name: str, rows: Sequence[SeriesRow], has_times: bool, columns: tuple[str, ...]) -> Series:
    numbers = np.stack([row.numbers for row in rows])
    if not has_times:
        return Series(name, numbers, columns, np.arange(len(rows), dtype=np.float64), tuple(map(str, range(len(rows)))))
    labels, locations = tuple(row.label for row in rows), [row.location for row in rows]
    times = parse_times(labels, locations)
    steps = np.diff(times)
    if len(wrong := np.flatnonzero(steps <= 0)):
        row = int(wrong[0]) + 1
        problem = "comes twice" if steps[row - 1] == 0 else f"comes after {labels[row - 1]}"
        remedy = "sort the rows and keep one of each time"
        if not name:
            remedy += "; if they are of several series, set task.group_column to the column of their names"
        raise UserError(f"{locations[row]}: the time {labels[row]} {problem}; {remedy}")
    return Series(name, numbers, columns, times, labels)


def _check_header(rows: Sequence[Sequence[str]], location: str) -> None:
    """Raise a UserError if the first row may be data, which would be lost.

    A number or a date may be a name if another column has a text in the first row and a value in the second. ``rows``
    are the first two rows, or the only one.
    """
    first, *second = rows
    pairs = [pair for row in second for pair in zip(first, row, strict=True)]
    if any(map(_is_value, first)) and not any(
        cell and not _is_value(cell) and _is_value(below) for cell, below in pairs
    ):
        raise UserError(
            f"{location}: the first row may be data or names of columns ({quoted(','.join(first))}); set "
            "task.header=false if it is data (columns are then called 1, 2, ...), task.header=true if it is names"
        )


def _is_value(cell: str) -> bool:
    return cell.lower() in GAPS or is_number(cell) or parse_date(cell) is not None


def _parse_value(cell: str, column: str, location: str) -> float:
    if cell.lower() in MISSING:
        return np.nan
    if not is_number(cell):
        remedy = "leave it empty if it is missing, or name task.target_columns without this column"
        if is_number(cell.replace(",", "")):
            remedy = "write decimals with a point, and thousands without separators"
        raise UserError(f"{location}: {quoted(cell)} in column {column!r} is not a number; {remedy}")
    value = float(cell)
    if abs(value) > LARGEST:
        raise UserError(
            f"{location}: {value:g} in column {column!r} is not a finite 32-bit number; leave it empty if it is missing"
        )
    return value


def irregular_steps_note(series: Series, usual_step: float | None = None) -> list[str]:
    """Return a note on steps unlike the usual one, by default the series' own; months, quarters and years are usual."""
    steps = np.diff(series.times)
    usual = usual_step or series.usual_step or 0.0
    unusual = np.flatnonzero(np.abs(steps - usual) > UNUSUAL_STEP * usual)
    if not len(unusual):
        return []
    unit = " s" if series.has_dates else ""
    return [
        f"{len(unusual):,} of {len(steps):,} steps{name_suffix(series)} are not about {usual:g}{unit} long as is "
        f"usual, the first after {series.labels[unusual[0]]}; they are treated as equal"
    ]


def fill_missing(series: Series, where: str = "the series") -> tuple[Series, list[str]]:
    """Replace missing values by the last one before, and those at the start by the first one after.

    No window forecasts from before the first value of a target (``WindowSpec.valid_starts``). Known columns have a
    value in the training split (``split_series``).

    Returns:
        the series, and a note on each column with missing values.

    Raises:
        UserError: a column has no values.
    """
    numbers, notes = series.numbers.copy(), []
    for index, column in enumerate(series.columns):
        measured = np.flatnonzero(~np.isnan(numbers[:, index]))
        if not len(measured):
            raise UserError(
                f"{where}: the column {column!r}{name_suffix(series)} has no values; leave the column or the series out"
            )
        if len(measured) < len(numbers):
            last = np.maximum(np.searchsorted(measured, np.arange(len(numbers)), side="right") - 1, 0)
            numbers[:, index] = numbers[measured[last], index]
            leading = f", the first {measured[0]:,} by the first one after" if measured[0] else ""
            notes.append(f"{_filled(column, series, len(numbers) - len(measured))}{leading}")
    return series._replace(numbers=numbers, missing_mask=np.isnan(series.numbers)), notes


def filled_notes(series: Series) -> list[str]:
    """Return a note on each column of filled series whose values were missing."""
    if series.missing_mask is None:
        return []
    counts = series.missing_mask.sum(0).tolist()
    return [_filled(column, series, count) for column, count in zip(series.columns, counts, strict=True) if count]


def _filled(column: str, series: Series, count: int) -> str:
    return f"{count:,} missing values of {column}{name_suffix(series)} are replaced by the last ones before"


def name_suffix(series: Series) -> str:
    """Return the series' name for a message: `` of NAME``, or nothing."""
    return f" of {series.name}" if series.name else ""


def write_test_series(folder: Path, series: Sequence[Series]) -> None:
    """Write series to a folder; no file if there are none."""
    arrays: dict[str, Any] = {}
    for index, item in enumerate(series):
        single = item._replace(numbers=item.numbers.astype(np.float32))
        arrays |= {f"{name}_{index}": np.array(getattr(single, name)) for name in SAVED_FIELDS}
    if arrays:
        write_arrays(folder / TEST_SERIES, arrays)


def read_test_series(folder: Path) -> list[Series]:
    """Read what :func:`write_test_series` wrote; an empty list without such a file."""
    if not (folder / TEST_SERIES).is_file():
        return []
    arrays = read_arrays(folder / TEST_SERIES)
    return [
        Series(
            str(arrays[f"name_{index}"]),
            arrays[f"numbers_{index}"],
            tuple(map(str, arrays[f"columns_{index}"])),
            arrays[f"times_{index}"],
            tuple(map(str, arrays[f"labels_{index}"])),
        )
        for index in range(len(arrays) // len(SAVED_FIELDS))
    ]
