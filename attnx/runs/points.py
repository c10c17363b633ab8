"""Points of a run's first test examples, saved for figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from attnx.runs.layout import POINTS

Points = npt.NDArray[np.float32]

MAX_SAVED_EXAMPLES: Final = 100


def write_points(folder: Path, examples: Sequence[Points]) -> None:
    """Write the points (n, columns) of the first examples."""
    arrays: dict[str, Any] = {str(index): points for index, points in enumerate(examples[:MAX_SAVED_EXAMPLES])}
    np.savez_compressed(folder / POINTS, **arrays)


def read_points(folder: Path) -> list[Points]:
    """Read what :func:`write_points` wrote; an empty list without such a file."""
    if not (folder / POINTS).is_file():
        return []
    with np.load(folder / POINTS, allow_pickle=False) as arrays:
        return [arrays[str(index)] for index in range(len(arrays.files))]
