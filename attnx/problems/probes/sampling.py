"""Draws without replacement and hashes, many rows at once."""

from __future__ import annotations

from typing import Any

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


def different_numbers(codes: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """Different numbers below ``size`` (..., k) by codes (..., k), as random as these: each among those not yet taken.

    >>> different_numbers(np.array([[1, 1, 0], [3, 0, 0]]), 4).tolist()
    [[1, 2, 0], [3, 0, 1]]
    """
    numbers = np.empty_like(codes)
    for place in range(codes.shape[-1]):
        number = codes[..., place] % (size - place)
        for taken in np.moveaxis(np.sort(numbers[..., :place], -1), -1, 0):
            number = number + (number >= taken)
        numbers[..., place] = number
    return numbers


def mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Hash 64 bits to 64 bits; equal numbers to equal ones.

    Source: SplitMix64, Steele et al. 2014, https://doi.org/10.1145/2660193.2660195
    """
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(31))


def hash_rows(rows: Integers) -> npt.NDArray[np.uint64]:
    """A hash of each row (n, t), from the sum of its symbols times random odd numbers."""
    factors = 2 * np.random.default_rng(0).integers(2**63, size=rows.shape[1], dtype=np.uint64) + np.uint64(1)
    return mix((rows + 1).astype(np.uint64) @ factors)
