"""The series of a run's test part, kept with the run so that pictures can show what a forecast looked back on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attnx.data.readers.series import Series

FILE = "test_series.npz"


def write_series(folder: Path, series: Sequence[Series]) -> None:
    """Write series to a folder; nothing if there are none."""
    arrays: dict[str, Any] = {}
    for number, one in enumerate(series):
        arrays |= {
            f"name_{number}": np.array(one.name),
            f"numbers_{number}": one.numbers.astype(np.float32),
            f"columns_{number}": np.array(one.columns),
            f"times_{number}": one.times,
            f"labels_{number}": np.array(one.labels),
        }
    if arrays:
        np.savez_compressed(folder / FILE, **arrays)


def read_kept_series(folder: Path) -> list[Series]:
    """Read what :func:`write_series` wrote; an empty list where there is nothing."""
    if not (folder / FILE).is_file():
        return []
    with np.load(folder / FILE, allow_pickle=False) as held:
        count = sum(name.startswith("name_") for name in held)
        return [
            Series(
                str(held[f"name_{number}"]),
                held[f"numbers_{number}"],
                tuple(map(str, held[f"columns_{number}"])),
                held[f"times_{number}"],
                tuple(map(str, held[f"labels_{number}"])),
            )
            for number in range(count)
        ]
