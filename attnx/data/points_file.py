"""The points of the first examples that a run was tested on, kept so that pictures can be drawn from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float32]

POINTS: Final = "points.npz"
KEPT: Final = 100


def write_points(folder: Path, drawn: Sequence[Points]) -> None:
    """Write the first examples' points (n, columns) into a folder."""
    held: dict[str, Any] = {str(number): points for number, points in enumerate(drawn[:KEPT])}
    np.savez_compressed(folder / POINTS, **held)


def read_points(folder: Path) -> list[Points]:
    """What :func:`write_points` wrote, in its order; nothing where there is no such file."""
    if not (folder / POINTS).is_file():
        return []
    with np.load(folder / POINTS, allow_pickle=False) as held:
        return [held[str(number)] for number in range(len(held.files))]
