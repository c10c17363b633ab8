"""What was measured: a row of numbers a step, with names of the steps, from files of any of four kinds."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from attnx.data.examples import Symbols
from attnx.data.features import Matrix
from attnx.data.readers.feature_files import READERS, FeatureTable
from attnx.errors import UserError


class Recording(NamedTuple):
    """What one file holds, step by step.

    Attributes:
        features: (s, f), finite.
        steps: the names of its steps, s of them: 0, 1, ... unless the file names them.
        columns: the names of its columns, f of them; empty where the file has none.
    """

    features: Matrix
    steps: Symbols
    columns: Symbols


def read_matrix(path: Path, step_names: str | None = None) -> Recording:
    r"""Read a matrix of features, a row a step.

    A CSV file may begin with a header, a line without any number. An .npz file holds the array ``features``, or one
    array alone. A .parquet file holds columns of numbers; pandas' unnamed index is none of them.

    Args:
        path: the file; its ending says what it is.
        step_names: the column (in an .npz file the array) that names the steps, a time stamp say, and is no feature.

    Raises:
        UserError: ``file: what is wrong``, with the line or row where there is one: no such file, not readable, a word
            or nothing where a number belongs, NaN or infinity, rows of unlike length, no rows, or no such column.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "walk.csv"
    ...     _ = path.write_text("time,x,y\n9:00,1,2\n9:05,3,5\n")
    ...     read_matrix(path, step_names="time")
    Recording(features=array([[1., 2.],
           [3., 5.]], dtype=float32), steps=('9:00', '9:05'), columns=('x', 'y'))
    """
    reader = READERS.get(path.suffix)
    if reader is None:
        raise UserError(f"{path}: its name does not say what it is; features are {', '.join(READERS)} files")
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    held = reader(path, step_names)
    features = _judged(path, held)
    names = range(len(features)) if held.steps is None else held.steps
    # One word each: where symbols stand side by side they are apart by spaces.
    return Recording(features, tuple("_".join(str(name).split()) for name in names), tuple(held.columns))


class Recordings:
    """Files that belong together: all have the same columns, in the same order.

    Args:
        step_names: as in :func:`read_matrix`.
        trained: the columns of what a run was trained on, if this is more of the same and they have names.
    """

    def __init__(self, step_names: str | None = None, trained: Symbols = ()) -> None:
        self.step_names, self.trained = step_names, trained
        self.first: tuple[Path, Recording] | None = None

    @property
    def columns(self) -> Symbols:
        """The names of their columns; empty where there are none."""
        return self.first[1].columns if self.first else ()

    def read(self, path: Path) -> Recording:
        """Read one more.

        Raises:
            UserError: what :func:`read_matrix` raises, or its columns are not those of the first one.
        """
        recording = read_matrix(path, self.step_names)
        first, other = self.first or (path, recording)
        width, expected = recording.features.shape[1], other.features.shape[1]
        if width != expected:
            raise UserError(f"{path}: {width} features a step, but {first} has {expected}")
        if recording.columns and other.columns and recording.columns != other.columns:
            raise UserError(
                f"{path}: its columns are {', '.join(recording.columns)}, but those of {first} are "
                f"{', '.join(other.columns)}; all files need the same ones, in the same order"
            )
        if recording.columns and self.trained and recording.columns != self.trained:
            raise UserError(
                f"{path}: its columns are {', '.join(recording.columns)}, but this run was trained on "
                f"{', '.join(self.trained)}; give the same ones, in the same order"
            )
        self.first = first, other
        return recording


def _judged(path: Path, held: FeatureTable) -> Matrix:
    with np.errstate(over="ignore"):
        features: Matrix = held.numbers.astype(np.float32)
    if not features.size:
        raise UserError(f"{path}: holds no numbers; expected a row for each step")
    finite = np.isfinite(features)
    if finite.all():
        return features
    row, column = map(int, np.argwhere(~finite)[0])
    if held.lines is None:
        where, named = f"{path}: row {row}, counted from 0", column
    else:
        where, named = f"{path}:{held.lines[row]}", column + 1
    said = f"{held.numbers[row, column]} in column {repr(held.columns[column]) if held.columns else named}"
    raise UserError(f"{where}: {said} is no finite 32-bit number; fill it in, or leave the row out")
