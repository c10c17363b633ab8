"""Series of a run's test part, saved so that figures can show what a forecast is based on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attnx.data.readers.series import Series
from attnx.runs.layout import TEST_SERIES


def write_test_series(folder: Path, series: Sequence[Series]) -> None:
    """Write series to a folder; no file if there are none."""
    arrays: dict[str, Any] = {}
    for index, item in enumerate(series):
        arrays |= {
            f"name_{index}": np.array(item.name),
            f"numbers_{index}": item.numbers.astype(np.float32),
            f"columns_{index}": np.array(item.columns),
            f"times_{index}": item.times,
            f"labels_{index}": np.array(item.labels),
        }
    if arrays:
        np.savez_compressed(folder / TEST_SERIES, **arrays)


def read_test_series(folder: Path) -> list[Series]:
    """Read what :func:`write_test_series` wrote; an empty list without such a file."""
    if not (folder / TEST_SERIES).is_file():
        return []
    with np.load(folder / TEST_SERIES, allow_pickle=False) as arrays:
        count = sum(name.startswith("name_") for name in arrays)
        return [
            Series(
                str(arrays[f"name_{index}"]),
                arrays[f"numbers_{index}"],
                tuple(map(str, arrays[f"columns_{index}"])),
                arrays[f"times_{index}"],
                tuple(map(str, arrays[f"labels_{index}"])),
            )
            for index in range(count)
        ]
