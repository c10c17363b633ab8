"""Writes NumPy's arrays atomically."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from attnx.files.atomic_files import atomic_write


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write a compressed ``.npz`` archive."""
    with atomic_write(path) as partial, partial.open("wb") as file:  # given a path, numpy appends a suffix
        np.savez_compressed(file, **arrays)
