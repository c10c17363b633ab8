"""The points of a run's first test examples, saved for figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from attnx.files.atomic_files import write_arrays
from attnx.files.bounded_files import read_arrays

from .answers import Points

POINTS_FILE: Final = "points.npz"
MAX_SAVED_EXAMPLES: Final = 100


def write_points(folder: Path, examples: Sequence[Points]) -> None:
    """Write the points (n, columns) of the first examples to a folder, which is made."""
    folder.mkdir(exist_ok=True)
    arrays: dict[str, Any] = {str(index): points for index, points in enumerate(examples[:MAX_SAVED_EXAMPLES])}
    write_arrays(folder / POINTS_FILE, arrays)


def read_points(folder: Path) -> list[Points]:
    """Read what :func:`write_points` wrote; an empty list without such a file."""
    if not (folder / POINTS_FILE).is_file():
        return []
    return list(read_arrays(folder / POINTS_FILE).values())
