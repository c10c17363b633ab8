"""Draws without replacement, many rows at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .drawn import Integers


def draw_distinct(rng: np.random.Generator, rows: int, count: int, size: int) -> Integers:
    """Draw ``count`` different numbers below ``size`` in random order, (rows, count).

    Numbers that occur earlier in their row are drawn again until there are none. That treats all numbers alike, so all
    ordered choices are equally likely.
    """
    if 2 * count > size:
        return rng.random((rows, size), dtype=np.float32).argsort(1)[:, :count]
    numbers = rng.integers(size, size=(rows, count))
    pending = np.arange(rows)
    while len(pending):
        part = numbers[pending]
        is_repeated = previous_occurrence(part) >= 0
        part[is_repeated] = rng.integers(size, size=int(is_repeated.sum()))
        numbers[pending] = part
        pending = pending[is_repeated.any(1)]
    return numbers


def draw_weighted(rng: np.random.Generator, rows: int, count: int, log_weights: npt.NDArray[np.floating]) -> Integers:
    """Draw ``count`` different positions one after another, each with its weight among those left, (rows, count).

    Source: Gumbel's perturbation of log-weights, sorted; Yellott 1977, https://doi.org/10.1016/0022-2496(77)90026-8
    """
    noise = -np.log(rng.standard_exponential((rows, len(log_weights)), dtype=np.float32))
    return (-(log_weights + noise)).argsort(1)[:, :count]


def previous_occurrence(numbers: Integers) -> Integers:
    """The last earlier position in the same row that holds the same number, -1 if there is none.

    >>> previous_occurrence(np.array([[5, 7, 5, 5]])).tolist()
    [[-1, -1, 0, 2]]
    """
    order = numbers.argsort(1, kind="stable")
    ascending = np.take_along_axis(numbers, order, 1)
    earlier = np.where(ascending[:, 1:] == ascending[:, :-1], order[:, :-1], -1)
    previous = np.full_like(order, -1)
    np.put_along_axis(previous, order[:, 1:], earlier, 1)
    return previous
