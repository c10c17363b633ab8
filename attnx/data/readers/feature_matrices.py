"""Reading feature matrices, a row of numbers per step, from .csv, .npy and .npz files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attnx.data.examples import Symbols
from attnx.data.features import Matrix
from attnx.data.paths import missing_file_message
from attnx.data.readers.lines import read_csv_rows, reject_duplicate_columns
from attnx.errors import UserError, suggest
from attnx.files.bounded_files import read_array, read_arrays
from attnx.files.parse_number import is_number
from attnx.files.printable import quoted

# Texts of missing numbers: a row of nothing else has no names of columns.
GAPS = ("nan", "na", "n/a", "null", "none", "?")


class FeatureMatrix(NamedTuple):
    """Finite features (s, f) in double precision, the names of the s steps, and of the f columns.

    Steps without names in the file have their indices.
    """

    features: Matrix
    steps: Symbols
    columns: Symbols


class FeatureTable(NamedTuple):
    """The content of a file: numbers (s, f) of any type, maybe infinite or NaN; line numbers only of text."""

    numbers: npt.NDArray[Any]
    columns: Sequence[str] = ()
    steps: Sequence[object] | None = None
    lines: Sequence[int] | None = None


def read_matrix(path: Path, step_names: str | None = None) -> FeatureMatrix:
    """Read a matrix of features, a row per step.

    A CSV file may start with a header, a line without numbers; one of 0, 1, 2 and so on is a UserError. An .npz file
    contains the array ``features``, or a single array. ``step_names`` is the column (in an .npz file, array) that names
    the steps, such as a time stamp, and is not a feature. Whatever is no finite number, and rows of different lengths,
    are UserErrors with line or row.
    """
    reader = READERS.get(path.suffix)
    if reader is None:
        raise UserError(f"{path}: unknown ending; feature files are {', '.join(READERS)} files")
    if not os.path.exists(path):  # False for a name that is too long
        raise UserError(missing_file_message(path))
    if not path.is_file():
        raise UserError(f"{path}: is not a file; feature files are {', '.join(READERS)} files")
    table = reader(path, step_names)
    features = _check_finite(path, table)
    names = range(len(features)) if table.steps is None else table.steps
    # Without spaces, which separate symbols in tables.
    return FeatureMatrix(features, tuple("_".join(str(name).split()) for name in names), tuple(table.columns))


class MatrixReader:
    """Reads files that must have the same columns in the same order: as the first, and as a run was trained on.

    ``step_names`` is the column that names the steps. Of a run's columns the names may be unknown; without their number
    the first file tells.
    """

    def __init__(
        self, step_names: str | None = None, trained_columns: Symbols = (), trained_width: int | None = None
    ) -> None:
        self.step_names, self.trained_columns, self.trained_width = step_names, trained_columns, trained_width
        self.first: tuple[Path, FeatureMatrix] | None = None

    @property
    def columns(self) -> Symbols:
        """The names of the columns, or empty."""
        return self.first[1].columns if self.first else ()

    def read(self, path: Path) -> FeatureMatrix:
        """Read a file; a UserError as of :func:`read_matrix`, or if its columns differ from those of the first file."""
        matrix = read_matrix(path, self.step_names)
        width = matrix.features.shape[1]
        if self.trained_width is not None and width != self.trained_width:
            raise UserError(f"{path}: {width} features per step, but this run was trained on {self.trained_width}")
        first_path, first = self.first or (path, matrix)
        if width != (expected := first.features.shape[1]):
            raise UserError(f"{path}: {width} features per step, but {first_path} has {expected}")
        sources = {f"{first_path} has": first.columns, "this run was trained on": self.trained_columns}
        for what, columns in sources.items():
            if matrix.columns and columns and matrix.columns != columns:
                columns_found, columns_expected = ", ".join(matrix.columns), ", ".join(columns)
                raise UserError(
                    f"{path}: its columns are {columns_found}, but {what} {columns_expected}; give the same ones, "
                    "in the same order"
                )
        self.first = first_path, first
        return matrix


def _check_finite(path: Path, table: FeatureTable) -> Matrix:
    """The numbers in double precision, unless one is not finite in the single precision of models."""
    features: Matrix = table.numbers.astype(np.float64)
    if not features.size:
        raise UserError(f"{path}: holds no numbers; expected a row for each step")
    with np.errstate(over="ignore"):
        is_finite = np.isfinite(features.astype(np.float32))
    if is_finite.all():
        return features
    row, column = map(int, np.argwhere(~is_finite)[0])
    if table.lines is None:
        location, name = f"{path}: row {row}, counted from 0", column
    else:
        location, name = f"{path}:{table.lines[row]}", column + 1
    cell = f"{table.numbers[row, column]} in column {repr(table.columns[column]) if table.columns else name}"
    raise UserError(f"{location}: {cell} is not a finite 32-bit number; fill it in, or remove the row")


def _read_csv(path: Path, step_names: str | None) -> FeatureTable:
    numbered = list(read_csv_rows(path))
    lines, rows = [line for line, _ in numbered], [row for _, row in numbered]
    columns: list[str] = []
    if rows:
        _refuse_counted_columns(rows[0], f"{path}:{lines[0]}")
    # A single cell may be the name of a column: Na is sodium.
    if rows and not any(map(is_number, rows[0])) and not all(cell.lower() in GAPS for cell in rows[0]):
        columns, first = rows.pop(0), lines.pop(0)
        reject_duplicate_columns(f"{path}:{first}", columns)
        if "" in columns:
            raise UserError(
                f"{path}:{first}: column {columns.index('') + 1} of the header has no name; give it one, or leave the "
                "column out (pandas: to_csv(..., index=False))"
            )
    steps = None
    if step_names is not None:
        index = _column_index(path, step_names, columns)
        steps = [row.pop(index) for row in rows]
        del columns[index]
    numbers = [_parse_row(row, columns, f"{path}:{line}") for line, row in zip(lines, rows, strict=True)]
    return FeatureTable(
        np.array(numbers, dtype=np.float64).reshape(len(rows), -1 if rows else 0), columns, steps, lines
    )


def _refuse_counted_columns(row: Sequence[str], location: str) -> None:
    """Refuse a first row that counts its columns, as pandas names them where they have no names."""
    counts = [[str(number + first) for number in range(len(row))] for first in (0, 1)]
    if len(row) > 1 and list(row) in counts:
        raise UserError(
            f"{location}: {quoted(','.join(row))} may be numbers of columns, or the first step; write names of columns "
            "in its place, or above it if it is data"
        )


def _parse_row(row: Sequence[str], columns: Sequence[str], location: str) -> list[float]:
    index = next((index for index, field in enumerate(row) if not is_number(field)), None)
    if index is None:
        return list(map(float, row))
    column = f"column {repr(columns[index]) if columns else index + 1}"
    if not row[index]:
        raise UserError(f"{location}: {column} is empty; fill it in, or remove the row")
    hint = ""
    if ";" in row[index]:
        hint = "; columns are separated by commas"
    elif columns:
        name = columns[index]
        hint = f"; if it names the step, set task.step_names={name} (of targets: task.target_step_names={name})"
    raise UserError(f"{location}: {quoted(row[index])} in {column} is not a number{hint}")


def _column_index(path: Path, name: str, columns: Sequence[str]) -> int:
    if name not in columns:
        raise UserError(f"{path}: has no {name!r} to name its steps{suggest(name, columns)}")
    return columns.index(name)


def _read_numpy(path: Path, step_names: str | None) -> FeatureTable:
    arrays = read_arrays(path) if path.suffix == ".npz" else {"features": read_array(path)}
    arrays = {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}
    steps = None
    if step_names is not None:
        _column_index(path, step_names, list(arrays))
        steps = arrays.pop(step_names)
    if len(arrays) != 1 and "features" not in arrays:
        raise UserError(f"{path}: its arrays are {', '.join(arrays) or 'none'}; name one of them 'features'")
    numbers = arrays["features"] if "features" in arrays else next(iter(arrays.values()))
    if numbers.dtype.kind not in "biuf" or numbers.ndim != 2:
        expected = "numbers of shape (steps, features)"
        raise UserError(f"{path}: holds {numbers.dtype} of shape {numbers.shape}; expected {expected}")
    if steps is not None and steps.shape != numbers.shape[:1]:
        raise UserError(f"{path}: {step_names!r} of shape {steps.shape} does not name {len(numbers)} steps")
    return FeatureTable(numbers, steps=None if steps is None else list(steps))


READERS: dict[str, Callable[[Path, str | None], FeatureTable]] = {
    ".csv": _read_csv,
    ".npy": _read_numpy,
    ".npz": _read_numpy,
}
