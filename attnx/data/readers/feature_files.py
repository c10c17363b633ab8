"""What .csv, .npy, .npz and .parquet files hold of numbers, a row a step; whether they are finite is judged later."""

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
from attnx.data.readers.parquet_file import parquet_table
from attnx.errors import UserError, suggest
from attnx.files.parse_number import is_number
from attnx.files.printable import quoted
from attnx.registry.optional_deps import require

# How pandas calls an index without a name when it writes one among the columns.
INDEX = "__index_level_"


class FeatureTable(NamedTuple):
    """What a file holds.

    Attributes:
        numbers: (s, f) of any type of numbers.
        columns: the names of its columns; empty where it has none.
        steps: the names of its steps, of any type; None where it has none.
        lines: the lines of its rows; None for a file that is no text.
    """

    numbers: npt.NDArray[Any]
    columns: Sequence[str] = ()
    steps: Sequence[object] | None = None
    lines: Sequence[int] | None = None


def _csv(path: Path, step_names: str | None) -> FeatureTable:
    lines, rows = [], []
    for number, line in read_lines(path):
        if line.strip():
            lines.append(number)
            rows.append(_fields(line, f"{path}:{number}"))
            if len(rows[-1]) != len(rows[0]):
                raise UserError(
                    f"{path}:{number}: {len(rows[-1])} columns, but line {lines[0]} has {len(rows[0])}: {quoted(line)}"
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
        place = _place(path, step_names, columns)
        steps = [row.pop(place) for row in rows]
        del columns[place]
    numbers = [_numbers(row, columns, f"{path}:{line}") for line, row in zip(lines, rows, strict=True)]
    return FeatureTable(
        np.array(numbers, dtype=np.float64).reshape(len(rows), -1 if rows else 0), columns, steps, lines
    )


def _fields(line: str, where: str) -> list[str]:
    try:
        return [field.strip() for field in next(csv.reader([line]))]
    except csv.Error as error:
        raise UserError(f"{where}: is no line of a CSV file: {error}") from error


def _numbers(row: Sequence[str], columns: Sequence[str], where: str) -> list[float]:
    try:
        return list(map(float, row))
    except ValueError:
        place = next(place for place, field in enumerate(row) if not is_number(field))
        column = f"column {repr(columns[place]) if columns else place + 1}"
        if not row[place]:
            raise UserError(f"{where}: {column} is empty; fill it in, or leave the row out") from None
        hint = _maybe_names(columns[place]) if columns else ""
        hint = "; columns are apart by commas" if ";" in row[place] else hint
        raise UserError(f"{where}: {quoted(row[place])} in {column} is no number{hint}") from None


def _place(path: Path, name: str, known: Sequence[str]) -> int:
    if name not in known:
        raise UserError(f"{path}: holds no {name!r} to name its steps{suggest(name, known)}")
    return known.index(name)


def _numpy(path: Path, step_names: str | None) -> FeatureTable:
    arrays = _arrays(path)
    steps = None
    if step_names is not None:
        _place(path, step_names, list(arrays))
        steps = arrays.pop(step_names)
    if len(arrays) != 1 and "features" not in arrays:
        raise UserError(f"{path}: holds the arrays {', '.join(arrays) or 'of nothing'}; name one of them 'features'")
    numbers = arrays["features"] if "features" in arrays else next(iter(arrays.values()))
    if numbers.dtype.kind not in "biuf" or numbers.ndim != 2:
        raise UserError(
            f"{path}: holds {numbers.dtype} of shape {numbers.shape}; expected numbers of shape (steps, features)"
        )
    if steps is not None and steps.shape != numbers.shape[:1]:
        raise UserError(f"{path}: {step_names!r} of shape {steps.shape} cannot name {len(numbers)} steps")
    return FeatureTable(numbers, steps=None if steps is None else list(steps))


def _arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        with path.open("rb") as stream:  # numpy leaves a file that it opened itself and cannot read open
            loaded = np.load(stream, allow_pickle=False)
            return {"features": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"{path}: is no NumPy file of plain numbers: {str(error).splitlines()[0]}") from error


def _parquet(path: Path, step_names: str | None) -> FeatureTable:
    pyarrow, table = require("pyarrow", "parquet", str(path)), parquet_table(path)

    def cast(name: str, to: str) -> Any:
        try:
            return table[name].cast(to, safe=False)
        except pyarrow.ArrowException:
            hint = _maybe_names(name) if to == "float64" else ""
            raise UserError(f"{path}: the column {name!r} holds {table[name].type}, no numbers{hint}") from None

    steps = None
    if step_names is not None:
        _place(path, step_names, table.column_names)
        steps = ["" if name is None else name for name in cast(step_names, "string").to_pylist()]
    columns = [name for name in table.column_names if name != step_names and not name.startswith(INDEX)]
    numbers = np.array([cast(name, "float64").to_numpy() for name in columns], dtype=np.float64)
    return FeatureTable(numbers.reshape(len(columns), table.num_rows).T, columns, steps)


READERS: dict[str, Callable[[Path, str | None], FeatureTable]] = {
    ".csv": _csv,
    ".npy": _numpy,
    ".npz": _numpy,
    ".parquet": _parquet,
}


def _maybe_names(column: str) -> str:
    """What to do about a column that holds no numbers because it names the steps."""
    return f"; if it names the step, set task.step_names={column} (of targets: task.target_step_names={column})"
