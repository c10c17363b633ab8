"""How surely one rate is lower than another: the paired bootstrap over examples, of plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]


class Difference(NamedTuple):
    """A measure of the first run minus the second's (of a rate in points), its 95 % interval, and a two-sided p."""

    difference: float
    low: float
    high: float
    p: float


def bootstrap_rates(
    *errors: ArrayLike, groups: Sequence[str] | None = None, samples: int = 2000, seed: int = 0
) -> tuple[Numbers, Numbers]:
    """Error rates of the same examples, in percent, as they are and on examples drawn again with replacement.

    Examples are drawn alike for all rates. Those that add the same to all sums are one kind, so a resample is one
    multinomial draw of how many are of which.

    Args:
        errors: (n, 2) of each rate what each example adds: errors, and what they are out of.
        groups: of each example; a rate is then the mean of its groups' rates. None for the rate of all.
        samples: how often to draw.
        seed: of the draws.

    Returns:
        (k,) the rates, and (samples, k) those of each draw.
    """
    names, group = np.unique(np.zeros(len(np.asarray(errors[0]))) if groups is None else groups, return_inverse=True)
    kinds, times = np.unique(np.column_stack([group, *errors]), axis=0, return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(times.sum(), times / times.sum(), size=samples)

    def rates(weights: NDArray[np.int64]) -> Numbers:
        sums = np.stack([np.where(kinds[:, 0] == number, weights, 0) @ kinds[:, 1:] for number in range(len(names))])
        return np.asarray(100 * np.mean(sums[..., ::2] / np.maximum(sums[..., 1::2], 1), axis=0))

    return rates(times), rates(drawn)


def bootstrap_difference(
    first: ArrayLike, second: ArrayLike, groups: Sequence[str] | None = None, samples: int = 2000, seed: int = 0
) -> Difference:
    """Compare two error rates over the same examples, drawn again in pairs; below zero, the first is lower.

    Args and draws are those of :func:`bootstrap_rates`. Source: Koehn 2004, https://aclanthology.org/W04-3250.

    >>> bootstrap_difference([(1, 1), (1, 1)], [(0, 1), (0, 1)], samples=199)
    Difference(difference=100.0, low=100.0, high=100.0, p=0.01)
    """
    rates, drawn = bootstrap_rates(first, second, groups=groups, samples=samples, seed=seed)
    return difference_from_draws(float(rates[0] - rates[1]), drawn[:, 0] - drawn[:, 1])


def difference_from_draws(found: float, drawn: NDArray[np.float64]) -> Difference:
    """A difference as it was found, with the interval and p that other draws of the test give."""
    low, high = np.percentile(drawn, [2.5, 97.5])
    tail = min(np.sum(drawn <= 0), np.sum(drawn >= 0))
    return Difference(found, float(low), float(high), min(1.0, 2 * (float(tail) + 1) / (len(drawn) + 1)))
