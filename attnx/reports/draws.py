"""What a run's test would have measured on other draws of its examples: how far its results are chance."""

from __future__ import annotations

from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from attnx.run_format import RESAMPLED


def read_draws(folder: Path) -> dict[str, NDArray[np.float64]]:
    """Each measure of the draws, as far as it is a number in all; nothing of a run that kept none."""
    try:
        with np.load(folder / RESAMPLED, allow_pickle=False) as held:
            return {name: held[name] for name in held.files if np.isfinite(held[name]).all()}
    except (OSError, ValueError, BadZipFile):
        return {}
