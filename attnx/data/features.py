"""Sequences that are matrices: a row of numbers a step, scaled by what the training part holds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from attnx.errors import UserError
from attnx.files.bounded_files import read_json

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Features:
    """What each column of a matrix is scaled by: mean 0 and standard deviation 1 over the training part.

    Args:
        mean: of each column.
        scale: of each column, what its distance from the mean is divided by.
        columns: their names; empty where they have none.

    Raises:
        ValueError: there are no columns, or not as many scales as means.

    >>> scaled = Features.of([np.array([[1.0, 5.0], [3.0, 5.0]])])
    >>> scaled.encode(np.array([[3.0, 5.0]])).tolist()
    [[1.0, 0.0]]
    >>> scaled.decode(np.array([[1.0, 0.0]], dtype=np.float32)).tolist()
    [[3.0, 5.0]]
    """

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that each column has both numbers."""
        if not self.mean or len(self.mean) != len(self.scale):
            raise ValueError(f"{len(self.mean)} means and {len(self.scale)} scales")

    @classmethod
    def of(cls, matrices: Iterable[npt.NDArray[np.floating]], columns: tuple[str, ...] = ()) -> Features:
        """Measure matrices (s, f) of one width, steps counting alike; a column that never changes keeps its scale.

        Raises:
            ValueError: there are no steps.
        """
        steps, origin, total, squares = 0, np.zeros(()), np.zeros(()), np.zeros(())
        for matrix in matrices:
            if not steps and len(matrix):
                origin = matrix[0].astype(np.float64)
            # From the first step rather than from 0: squares of large numbers leave no digits for small changes.
            moved = matrix - origin
            steps += len(matrix)
            total = total + moved.sum(0)
            squares = squares + np.square(moved).sum(0)
        if not steps:
            raise ValueError("there are no steps to measure")
        mean = total / steps
        spread = np.sqrt(np.maximum(squares / steps - mean**2, 0))
        changes = spread > 1e-8 * (1 + np.abs(origin + mean))
        return cls(tuple((origin + mean).tolist()), tuple(np.where(changes, spread, 1).tolist()), columns)

    @property
    def width(self) -> int:
        """How many columns there are."""
        return len(self.mean)

    def encode(self, matrix: npt.NDArray[np.floating], unknown: float = 0.0) -> Matrix:
        """Scale a matrix (s, f), or several side by side (s, n f); NaN, the ``unknown``, becomes the mean, or this."""
        times = matrix.shape[-1] // self.width
        scaled = (matrix - np.tile(self.mean, times)) / np.tile(self.scale, times)
        known: Matrix = np.nan_to_num(scaled, nan=unknown).astype(np.float32)
        return known

    def decode(self, scaled: npt.NDArray[np.floating]) -> Matrix:
        """Undo :meth:`encode`."""
        times = scaled.shape[-1] // self.width
        matrix: Matrix = (scaled * np.tile(self.scale, times) + np.tile(self.mean, times)).astype(np.float32)
        return matrix

    def __str__(self) -> str:
        """For the start table."""
        return f"{self.width} features"

    def save(self, path: str | Path) -> None:
        """Write the scales, and the names if there are any, as JSON."""
        held = {"mean": self.mean, "scale": self.scale} | ({"columns": self.columns} if self.columns else {})
        Path(path).write_text(json.dumps(held, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Features:
        """Read what :meth:`save` wrote.

        Raises:
            UserError: the file cannot be read or holds something else.
        """
        found = read_json(Path(path))
        try:
            mean, scale = (tuple(map(float, found[name])) for name in ("mean", "scale"))
            return cls(mean, scale, tuple(map(str, found.get("columns", ()))))
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: is no file of feature scales: {error}") from error
