"""Reading feature matrices: a row of numbers per step, with names of steps and columns."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from attnx.data.examples import Symbols
from attnx.data.features import Matrix
from attnx.data.readers.feature_files import READERS, FeatureTable
from attnx.errors import UserError


class FeatureMatrix(NamedTuple):
    """The matrix of a file.

    Attributes:
        features: (s, f), finite.
        steps: names of the s steps: 0, 1, ... unless the file names them.
        columns: names of the f columns, or empty.
    """

    features: Matrix
    steps: Symbols
    columns: Symbols


def read_matrix(path: Path, step_names: str | None = None) -> FeatureMatrix:
    r"""Read a matrix of features, a row per step.

    A CSV file may start with a header, a line without numbers. An .npz file contains the array ``features``, or a
    single array. The columns of a .parquet file are numbers; pandas' unnamed index is skipped.

    Args:
        path: the file; its ending is its format.
        step_names: column (in an .npz file, array) that names the steps, such as a time stamp, and is not a feature.

    Raises:
        UserError: ``file: problem``, with line or row: missing or unreadable file, text or nothing instead of a number,
            NaN or infinity, rows of different lengths, no rows, or no such column.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "walk.csv"
    ...     _ = path.write_text("time,x,y\n9:00,1,2\n9:05,3,5\n")
    ...     read_matrix(path, step_names="time")
    FeatureMatrix(features=array([[1., 2.],
           [3., 5.]], dtype=float32), steps=('9:00', '9:05'), columns=('x', 'y'))
    """
    reader = READERS.get(path.suffix)
    if reader is None:
        raise UserError(f"{path}: unknown ending; feature files are {', '.join(READERS)} files")
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    table = reader(path, step_names)
    features = _check_finite(path, table)
    names = range(len(features)) if table.steps is None else table.steps
    # Without spaces, which separate symbols in tables.
    return FeatureMatrix(features, tuple("_".join(str(name).split()) for name in names), tuple(table.columns))


class MatrixReader:
    """Reads files that must have the same columns in the same order.

    Args:
        step_names: as in :func:`read_matrix`.
        trained_columns: columns that a run was trained on, if they have names.
    """

    def __init__(self, step_names: str | None = None, trained_columns: Symbols = ()) -> None:
        self.step_names, self.trained_columns = step_names, trained_columns
        self.first: tuple[Path, FeatureMatrix] | None = None

    @property
    def columns(self) -> Symbols:
        """The names of the columns, or empty."""
        return self.first[1].columns if self.first else ()

    def read(self, path: Path) -> FeatureMatrix:
        """Read a file.

        Raises:
            UserError: as :func:`read_matrix`, or the columns differ from those of the first file.
        """
        matrix = read_matrix(path, self.step_names)
        first_path, first = self.first or (path, matrix)
        width, expected = matrix.features.shape[1], first.features.shape[1]
        if width != expected:
            raise UserError(f"{path}: {width} features per step, but {first_path} has {expected}")
        columns = f"{path}: its columns are {', '.join(matrix.columns)}, but"
        if matrix.columns and first.columns and matrix.columns != first.columns:
            raise UserError(
                f"{columns} those of {first_path} are {', '.join(first.columns)}; all files need the same ones, in the "
                "same order"
            )
        if matrix.columns and self.trained_columns and matrix.columns != self.trained_columns:
            raise UserError(
                f"{columns} this run was trained on {', '.join(self.trained_columns)}; give the same ones, in the same "
                "order"
            )
        self.first = first_path, first
        return matrix


def _check_finite(path: Path, table: FeatureTable) -> Matrix:
    with np.errstate(over="ignore"):
        features: Matrix = table.numbers.astype(np.float32)
    if not features.size:
        raise UserError(f"{path}: holds no numbers; expected a row for each step")
    is_finite = np.isfinite(features)
    if is_finite.all():
        return features
    row, column = map(int, np.argwhere(~is_finite)[0])
    if table.lines is None:
        location, name = f"{path}: row {row}, counted from 0", column
    else:
        location, name = f"{path}:{table.lines[row]}", column + 1
    cell = f"{table.numbers[row, column]} in column {repr(table.columns[column]) if table.columns else name}"
    raise UserError(f"{location}: {cell} is not a finite 32-bit number; fill it in, or remove the row")
