"""Reading tables of numbers, a row per step, from .csv, .npy, .npz and .parquet files."""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attnx.data.readers.lines import read_lines
from attnx.data.readers.parquet_file import read_parquet
from attnx.errors import UserError, suggest
from attnx.files.parse_number import is_number
from attnx.files.printable import quoted
from attnx.registry.optional_deps import require

# pandas' name of an unnamed index column.
PANDAS_INDEX = "__index_level_"


class FeatureTable(NamedTuple):
    """The content of a file; its numbers may be infinite or NaN.

    Attributes:
        numbers: (s, f) of any numeric type.
        columns: names of the columns, or empty.
        steps: names of the steps, of any type, or None.
        lines: line numbers of the rows; None for a binary file.
    """

    numbers: npt.NDArray[Any]
    columns: Sequence[str] = ()
    steps: Sequence[object] | None = None
    lines: Sequence[int] | None = None


def _read_csv(path: Path, step_names: str | None) -> FeatureTable:
    lines, rows = [], []
    for line_number, line in read_lines(path):
        if line.strip():
            lines.append(line_number)
            rows.append(_split_fields(line, f"{path}:{line_number}"))
            if len(rows[-1]) != len(rows[0]):
                raise UserError(
                    f"{path}:{line_number}: {len(rows[-1])} columns, but line {lines[0]} has {len(rows[0])}: "
                    f"{quoted(line)}"
                )
    columns: list[str] = []
    if rows and not any(map(is_number, rows[0])):
        columns = rows.pop(0)
        if "" in columns:
            raise UserError(
                f"{path}:{lines[0]}: column {columns.index('') + 1} of the header has no name; give it one, or leave "
                "the column out (pandas: to_csv(..., index=False))"
            )
        del lines[0]
    steps = None
    if step_names is not None:
        index = _column_index(path, step_names, columns)
        steps = [row.pop(index) for row in rows]
        del columns[index]
    numbers = [_parse_row(row, columns, f"{path}:{line}") for line, row in zip(lines, rows, strict=True)]
    return FeatureTable(
        np.array(numbers, dtype=np.float64).reshape(len(rows), -1 if rows else 0), columns, steps, lines
    )


def _split_fields(line: str, location: str) -> list[str]:
    try:
        return [field.strip() for field in next(csv.reader([line]))]
    except csv.Error as error:
        raise UserError(f"{location}: is not a line of a CSV file: {error}") from error


def _parse_row(row: Sequence[str], columns: Sequence[str], location: str) -> list[float]:
    try:
        return list(map(float, row))
    except ValueError:
        index = next(index for index, field in enumerate(row) if not is_number(field))
        column = f"column {repr(columns[index]) if columns else index + 1}"
        if not row[index]:
            raise UserError(f"{location}: {column} is empty; fill it in, or remove the row") from None
        hint = _step_names_hint(columns[index]) if columns else ""
        hint = "; columns are separated by commas" if ";" in row[index] else hint
        raise UserError(f"{location}: {quoted(row[index])} in {column} is not a number{hint}") from None


def _column_index(path: Path, name: str, columns: Sequence[str]) -> int:
    if name not in columns:
        raise UserError(f"{path}: has no {name!r} to name its steps{suggest(name, columns)}")
    return columns.index(name)


def _read_numpy(path: Path, step_names: str | None) -> FeatureTable:
    arrays = _load_arrays(path)
    steps = None
    if step_names is not None:
        _column_index(path, step_names, list(arrays))
        steps = arrays.pop(step_names)
    if len(arrays) != 1 and "features" not in arrays:
        raise UserError(f"{path}: its arrays are {', '.join(arrays) or 'none'}; name one of them 'features'")
    numbers = arrays["features"] if "features" in arrays else next(iter(arrays.values()))
    if numbers.dtype.kind not in "biuf" or numbers.ndim != 2:
        raise UserError(
            f"{path}: holds {numbers.dtype} of shape {numbers.shape}; expected numbers of shape (steps, features)"
        )
    if steps is not None and steps.shape != numbers.shape[:1]:
        raise UserError(f"{path}: {step_names!r} of shape {steps.shape} does not name {len(numbers)} steps")
    return FeatureTable(numbers, steps=None if steps is None else list(steps))


def _load_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        with path.open("rb") as stream:  # numpy does not close a file that it opened and cannot read
            loaded = np.load(stream, allow_pickle=False)
            return {"features": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"{path}: is not a NumPy file of plain numbers: {str(error).splitlines()[0]}") from error


def _read_parquet_numbers(path: Path, step_names: str | None) -> FeatureTable:
    pyarrow, table = require("pyarrow", "parquet", str(path)), read_parquet(path)

    def cast(name: str, dtype: str) -> Any:
        try:
            return table[name].cast(dtype, safe=False)
        except pyarrow.ArrowException:
            hint = _step_names_hint(name) if dtype == "float64" else ""
            raise UserError(f"{path}: the column {name!r} holds {table[name].type}, not numbers{hint}") from None

    steps = None
    if step_names is not None:
        _column_index(path, step_names, table.column_names)
        steps = ["" if name is None else name for name in cast(step_names, "string").to_pylist()]
    columns = [name for name in table.column_names if name != step_names and not name.startswith(PANDAS_INDEX)]
    numbers = np.array([cast(name, "float64").to_numpy() for name in columns], dtype=np.float64)
    return FeatureTable(numbers.reshape(len(columns), table.num_rows).T, columns, steps)


READERS: dict[str, Callable[[Path, str | None], FeatureTable]] = {
    ".csv": _read_csv,
    ".npy": _read_numpy,
    ".npz": _read_numpy,
    ".parquet": _read_parquet_numbers,
}


def _step_names_hint(column: str) -> str:
    """Suggest the option for a column of texts that names the steps."""
    return f"; if it names the step, set task.step_names={column} (of targets: task.target_step_names={column})"
