"""What a run's test would have measured on other draws of its examples: how far its results are chance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attnx.errors import UserError
from attnx.files.bounded_arrays import read_arrays
from attnx.runs.layout import RESAMPLED


def read_draws(folder: Path) -> dict[str, NDArray[np.float64]]:
    """Each measure of the draws, as far as it is a number in all; nothing of a run that kept none."""
    try:
        held = read_arrays(folder / RESAMPLED)
        return {name: drawn for name, drawn in held.items() if np.isfinite(drawn).all()}
    except (UserError, TypeError):  # texts are not finite
        return {}
