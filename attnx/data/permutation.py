"""Pseudo-random permutations that keep no list of rows in memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

# Each moves both coordinates, so these are 8 rounds by the usual count. With half as many, neighbors are correlated.
FEISTEL_ROUNDS = 4


class Permutation:
    """A pseudo-random permutation of the integers below ``count``, computed entry by entry.

    A Feistel network: an index is a cell of a table of about sqrt(count) rows and columns. Each round moves it down by
    an amount that depends on its column, then across by one that depends on its row. Results of ``count`` or more are
    permuted again until they are below (cycle walking). The table of amounts has some 8 sqrt(count) entries: 0.3 MB
    for ten million.

    Source: Black and Rogaway 2002, sections 4 and 5, https://eprint.iacr.org/2001/012
    """

    def __init__(self, count: int, seed: tuple[int, ...]) -> None:
        self.count = count
        self.bits = (max(count - 1, 0).bit_length() + 1) // 2
        columns = 1 << self.bits
        rows = -(-max(count, 1) // columns)
        self.wrapped_rows = np.tile(np.arange(rows), 2)  # a lookup is faster than a remainder
        rng = np.random.default_rng(seed)
        self.rounds = [
            (rng.integers(rows, size=columns), rng.integers(columns, size=rows)) for _ in range(FEISTEL_ROUNDS)
        ]

    def __call__(self, indices: Integers) -> Integers:
        """Return the entries at ``indices``."""
        entries = self._permute(indices)
        while len(outside := np.flatnonzero(entries >= self.count)):
            entries[outside] = self._permute(entries[outside])
        return entries

    def _permute(self, indices: Integers) -> Integers:
        row, column = indices >> self.bits, indices & ((1 << self.bits) - 1)
        for down, across in self.rounds:
            row = self.wrapped_rows[row + down[column]]
            column ^= across[row]  # the number of columns is a power of two, so xor stays in range
        return (row << self.bits) | column
