"""Bootstrap over test examples: resampled sums and rates, intervals and paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnx.errors import UserError
from attnx.files.bounded_files import read_arrays
from attnx.runs.layout import RESAMPLED

SAMPLES, SEED = 2000, 0
MAX_COUNTS_IN_MEMORY = 2**20
PERCENTILES_95 = (2.5, 97.5)

Numbers = NDArray[np.float64]


class Difference(NamedTuple):
    """A metric of the first run minus the second's (rates in points), its 95 % interval, and a two-sided p."""

    difference: float
    low: float
    high: float
    p: float


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


def bootstrap_rates(
    *errors: ArrayLike, groups: Sequence[str] | None = None, samples: int = SAMPLES, seed: int = SEED
) -> tuple[Numbers, Numbers]:
    """Error rates (k,) over the same examples, in percent, and (samples, k) over examples drawn with replacement.

    All rates share the draws. Examples that add the same to all sums are grouped, so that a sample is one multinomial
    draw of group sizes. The ``errors`` (n, 2) of a rate are what each example adds to the errors and to the total. With
    ``groups``, the label of each example, a rate is the mean of the rates of the groups, in a sample of those drawn.
    """
    labels, group = np.unique(np.zeros(len(np.asarray(errors[0]))) if groups is None else groups, return_inverse=True)
    kinds, counts = np.unique(np.column_stack([group, *errors]), axis=0, return_counts=True)
    random, chunk = np.random.default_rng(seed), max(1, MAX_COUNTS_IN_MEMORY // len(kinds))
    members = (kinds[:, 0] == np.arange(len(labels))[:, None]).astype(np.float64)

    def rates(weights: NDArray[np.int64]) -> Numbers:
        sums = np.stack([(member * weights) @ kinds[:, 1:] for member in members])
        is_drawn = members @ weights.T > 0
        group_rates = 100 * sums[..., ::2] / np.maximum(sums[..., 1::2], 1)
        return np.asarray(np.mean(group_rates, axis=0, where=is_drawn[..., None]))

    sizes = [min(chunk, samples - start) for start in range(0, samples, chunk)]
    draws = [rates(random.multinomial(counts.sum(), counts / counts.sum(), size=size)) for size in sizes]
    return rates(counts), np.concatenate(draws)


def bootstrap_difference(
    first: ArrayLike, second: ArrayLike, groups: Sequence[str] | None = None, samples: int = SAMPLES, seed: int = SEED
) -> Difference:
    """Paired bootstrap of two error rates over the same examples; below zero, the first rate is lower.

    Args and draws are as in :func:`bootstrap_rates`. Source: Koehn 2004, https://aclanthology.org/W04-3250.

    >>> bootstrap_difference([(1, 1), (1, 1)], [(0, 1), (0, 1)], samples=199)
    Difference(difference=100.0, low=100.0, high=100.0, p=0.01)
    """
    rates, draws = bootstrap_rates(first, second, groups=groups, samples=samples, seed=seed)
    return difference_from_draws(float(rates[0] - rates[1]), draws[:, 0] - draws[:, 1])


def difference_from_draws(difference: float, draws: NDArray[np.float64]) -> Difference:
    """A measured difference with the interval and p-value of its bootstrap distribution."""
    tail = min(np.sum(draws <= 0), np.sum(draws >= 0))
    low, high = percentile_interval(draws)
    return Difference(difference, low, high, min(1.0, 2 * (float(tail) + 1) / (len(draws) + 1)))


def read_draws(folder: Path) -> dict[str, NDArray[np.float64]]:
    """A run's draws of each test metric that is finite in all of them; empty if the run saved none."""
    try:
        draws = read_arrays(folder / RESAMPLED)
        return {name: values for name, values in draws.items() if np.isfinite(values).all()}
    except (UserError, TypeError):  # text has no isfinite
        return {}
