"""Reads the bootstrap distribution of a run's test metrics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attnx.errors import UserError
from attnx.files.bounded_arrays import read_arrays
from attnx.runs.layout import RESAMPLED


def read_draws(folder: Path) -> dict[str, NDArray[np.float64]]:
    """The draws of each metric that is finite in all of them; empty if the run saved none."""
    try:
        draws = read_arrays(folder / RESAMPLED)
        return {name: values for name, values in draws.items() if np.isfinite(values).all()}
    except (UserError, TypeError):  # text has no isfinite
        return {}
