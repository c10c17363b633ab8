"""Bootstrap over test examples: resampled sums, intervals and paired differences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attnx.errors import UserError
from attnx.files.bounded_files import read_arrays
from attnx.runs.layout import RESAMPLED

SAMPLES, SEED = 2000, 0
MAX_COUNTS_IN_MEMORY = 2**20
PERCENTILES_95 = (2.5, 97.5)

Numbers = NDArray[np.float64]


def percentile_interval(draws: NDArray[np.float64]) -> tuple[float, float]:
    """The 95 % percentile interval of a bootstrap distribution."""
    low, high = np.percentile(draws, PERCENTILES_95).tolist()
    return low, high


def resample_sums(values: Numbers, block: int = 1) -> Numbers:
    """Sums (SAMPLES, k) of (n, k) values over examples drawn with replacement.

    Blocks of consecutive examples are drawn together, wrapping around the end (circular block bootstrap, Politis and
    Romano 1992).
    """
    count, random = len(values), np.random.default_rng(SEED)
    chunk = max(1, MAX_COUNTS_IN_MEMORY // count)
    sums = np.empty((SAMPLES, values.shape[1]))
    for start in range(0, SAMPLES, chunk):
        size = min(chunk, SAMPLES - start)
        starts = random.integers(0, count, (size, -(-count // block), 1))
        rows = ((starts + np.arange(block)) % count).reshape(size, -1)[:, :count]
        flat = rows + count * np.arange(size)[:, None]
        counts = np.bincount(flat.ravel(), minlength=size * count).reshape(size, count).astype(np.float64)
        sums[start : start + size] = counts @ values
    return sums


def two_sided_p(draws: NDArray[np.float64]) -> float:
    """The p-value of a difference by its bootstrap distribution.

    Source: Koehn 2004, https://aclanthology.org/W04-3250

    >>> two_sided_p(np.full(199, 100.0)), two_sided_p(np.zeros(199))
    (0.01, 1.0)
    """
    tail = min(np.sum(draws <= 0), np.sum(draws >= 0))
    return min(1.0, 2 * (float(tail) + 1) / (len(draws) + 1))


def read_draws(folder: Path) -> dict[str, NDArray[np.float64]]:
    """A run's draws (SAMPLES,) of each test metric that is finite in all of them; empty if the run saved none."""
    try:
        draws = read_arrays(folder / RESAMPLED)
        return {name: each for name, each in draws.items() if each.shape == (SAMPLES,) and np.isfinite(each).all()}
    except (UserError, TypeError):  # text has no isfinite
        return {}
