"""Sources of a run's test split, saved for figures: the series behind forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from attnx.files.atomic_files import write_arrays
from attnx.files.bounded_files import read_arrays

from .series import Series

TEST_SERIES: Final = "test_series.npz"
SERIES_FIELDS: Final = ("name", "numbers", "columns", "times", "labels")


def write_test_series(folder: Path, series: Sequence[Series]) -> None:
    """Write series to a folder; no file if there are none."""
    arrays: dict[str, Any] = {}
    for index, item in enumerate(series):
        single = item._replace(numbers=item.numbers.astype(np.float32))
        arrays |= {f"{name}_{index}": np.array(getattr(single, name)) for name in SERIES_FIELDS}
    if arrays:
        write_arrays(folder / TEST_SERIES, arrays)


def read_test_series(folder: Path) -> list[Series]:
    """Read what :func:`write_test_series` wrote; an empty list without such a file."""
    if not (folder / TEST_SERIES).is_file():
        return []
    arrays = read_arrays(folder / TEST_SERIES)
    return [
        Series(
            str(arrays[f"name_{index}"]),
            arrays[f"numbers_{index}"],
            tuple(map(str, arrays[f"columns_{index}"])),
            arrays[f"times_{index}"],
            tuple(map(str, arrays[f"labels_{index}"])),
        )
        for index in range(len(arrays) // len(SERIES_FIELDS))
    ]
