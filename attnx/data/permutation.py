"""Pseudo-random permutations and temperature sampling that keep no list of rows in memory."""

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


class TemperatureSampler:
    """Epochs in which a tag (a language) with n rows is drawn in proportion to ``n ** (1 / temperature)``.

    An epoch has as many draws as there are rows. The draws of a tag cycle through its shuffled rows and continue in the
    next epoch: within an epoch the counts of a tag's rows differ by one at most, and no row is drawn twice before all
    have been drawn.

    Source: Arivazhagan et al. 2019, https://arxiv.org/abs/1907.05019

    ``rows`` are all row indices, tag after tag; ``starts`` where each tag's rows start, then their number.
    """

    def __init__(self, rows: npt.NDArray[np.integer], starts: Integers, temperature: float, seed: int) -> None:
        self.rows, self.starts, self.counts = rows, starts, np.diff(starts)
        self.ends = np.cumsum(temperature_counts(self.counts, temperature))
        self.orders = [Permutation(int(count), (seed, tag)) for tag, count in enumerate(self.counts)]

    def draw(self, epoch: int, draws: Integers) -> Integers:
        """Return the rows of ``draws``, which are indices below the number of rows, tag after tag."""
        draw_tags = np.searchsorted(self.ends, draws, side="right")
        drawn = np.empty_like(draws)
        for tag in np.unique(draw_tags).tolist():
            tag_mask = draw_tags == tag
            start = int(self.ends[tag - 1]) if tag else 0
            previous_draws = epoch * (int(self.ends[tag]) - start)
            indices = self.orders[tag]((previous_draws + draws[tag_mask] - start) % self.counts[tag])
            drawn[tag_mask] = self.rows[self.starts[tag] + indices]
        return drawn


def temperature_counts(counts: Integers, temperature: float) -> Integers:
    """Divide the sum of ``counts`` in proportion to ``counts ** (1 / temperature)``, in whole numbers.

    >>> temperature_counts(np.array([900, 100]), 2.0).tolist()  # as 30 to 10
    [750, 250]
    """
    weights = np.where(counts > 0, counts.astype(np.float64) ** (1 / temperature), 0.0)
    exact = counts.sum() * weights / max(weights.sum(), 1.0)
    rounded: Integers = np.floor(exact).astype(np.int64)
    # The remainder goes to those that lost most by rounding down.
    largest_losses = np.argsort(rounded - exact, kind="stable")[: counts.sum() - rounded.sum()]
    rounded[largest_losses] += 1
    return rounded
