"""Feature scaling: columns of matrices get mean 0 and standard deviation 1 over the training split."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from attnx.errors import UserError
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import read_json

Matrix = npt.NDArray[np.floating[Any]]
"""Scaled numbers in single precision; those in the data's units may have more digits."""
# Smaller deviations of a column, relative to its mean, are rounding errors.
MIN_RELATIVE_DEVIATION: Final = 1e-12
# The least normal number of single precision.
MIN_DEVIATION: Final = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class FeatureScaler:
    """Mean and scale of each column of a feature matrix.

    Constant columns have scale 1; ``columns`` are the names of the columns, or empty. No columns, and other numbers of
    scales than of means, are a ValueError.

    >>> scaled = FeatureScaler.of([np.array([[1.0, 5.0], [3.0, 5.0]])])
    >>> scaled.encode(np.array([[3.0, 5.0]])).tolist()
    [[1.0, 0.0]]
    >>> scaled.decode(np.array([[1.0, 0.0]], dtype=np.float32)).tolist()
    [[3.0, 5.0]]
    """

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that each column has a mean and a scale."""
        if not self.mean or len(self.mean) != len(self.scale):
            raise ValueError(f"{len(self.mean)} means and {len(self.scale)} scales")

    @property
    def signature(self) -> str:
        """What scaled numbers are measured in: errors of two scalings are not comparable.

        Another processor may round the last digits of the scales otherwise.
        """
        scales = " ".join(f"{number:.6g}" for number in (*self.mean, *self.scale))
        return f"scaled {hashlib.sha256(scales.encode()).hexdigest()[:8]}"

    @classmethod
    def of(cls, matrices: Iterable[npt.NDArray[np.floating]], columns: tuple[str, ...] = ()) -> FeatureScaler:
        """Compute the scales of matrices (s, f) over all steps; a ValueError if there are none."""
        steps, origin, total, squares = 0, np.zeros(()), np.zeros(()), np.zeros(())
        for matrix in matrices:
            if not steps and len(matrix):
                origin = matrix[0].astype(np.float64)
            # Relative to the first step: squares of large numbers would lose the digits of small changes.
            shifted = matrix - origin
            steps += len(matrix)
            total = total + shifted.sum(0)
            squares = squares + np.square(shifted).sum(0)
        if not steps:
            raise ValueError("there are no steps to measure")
        mean = total / steps
        deviation = np.sqrt(np.maximum(squares / steps - mean**2, 0))
        is_varying = deviation > np.maximum(MIN_RELATIVE_DEVIATION * np.abs(origin + mean), MIN_DEVIATION)
        return cls(tuple((origin + mean).tolist()), tuple(np.where(is_varying, deviation, 1).tolist()), columns)

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.mean)

    def encode(self, matrix: npt.NDArray[np.floating], missing: float = 0.0) -> Matrix:
        """Scale a matrix (s, f), or n of them side by side (s, n f), to single precision.

        NaN becomes ``missing``, by default the mean.
        """
        copies = matrix.shape[-1] // self.width
        scaled = (matrix - np.tile(self.mean, copies)) / np.tile(self.scale, copies)
        filled: Matrix = np.nan_to_num(scaled, nan=missing).astype(np.float32)
        return filled

    def decode(self, scaled: npt.NDArray[np.floating]) -> Matrix:
        """Undo :meth:`encode`; in double precision, since a large mean leaves few digits of small changes."""
        copies = scaled.shape[-1] // self.width
        matrix: Matrix = scaled * np.tile(self.scale, copies) + np.tile(self.mean, copies)
        return matrix

    def __str__(self) -> str:
        return f"{self.width} features"

    def save(self, path: str | Path) -> None:
        """Write the scales and the names of columns as JSON."""
        content = {"mean": self.mean, "scale": self.scale} | ({"columns": self.columns} if self.columns else {})
        write_json(Path(path), content, indent=None)

    @classmethod
    def load(cls, path: str | Path) -> FeatureScaler:
        """Read the file that :meth:`save` wrote; any other is a UserError."""
        content = read_json(Path(path))
        try:
            mean, scale = (tuple(map(float, content[name])) for name in ("mean", "scale"))
            if not all(map(math.isfinite, (*mean, *scale))):
                raise ValueError("a number is not finite")
            return cls(mean, scale, tuple(map(str, content.get("columns", ()))))
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path}: is not a file of feature scales: {error}") from error
