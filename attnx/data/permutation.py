"""Orders that are computed place by place where they are needed, so that even a huge corpus needs none in memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

# Each moves both coordinates: eight by the usual count. With half as many, neighbors can be told from chance.
ROUNDS = 4


class Permutation:
    """The numbers below ``count`` in a pseudo-random order, without a list of them.

    A Feistel network: a place is a cell of a table of about sqrt(count) rows and columns; in each round it moves down
    by an amount that its column decides, then across by one that its row decides. A place that lands behind the last
    number moves on until it does not (cycle walking). The amounts are drawn when the order is made, some 8 sqrt(count)
    numbers: 0.3 MB for ten million.

    Source: Black and Rogaway 2002, sections 4 and 5, https://eprint.iacr.org/2001/012

    Args:
        count: how many numbers.
        seed: non-negative numbers that decide the order.

    >>> order = Permutation(7, seed=(3, 5))
    >>> sorted(order(np.arange(7)).tolist())
    [0, 1, 2, 3, 4, 5, 6]
    """

    def __init__(self, count: int, seed: tuple[int, ...]) -> None:
        self.count = count
        self.bits = (max(count - 1, 0).bit_length() + 1) // 2
        self.across = 1 << self.bits
        down = -(-max(count, 1) // self.across)
        self.wrapped = np.tile(np.arange(down), 2)  # a look into it takes less time than a remainder
        chance = np.random.default_rng(seed)
        self.rounds = [
            (chance.integers(down, size=self.across), chance.integers(self.across, size=down)) for _ in range(ROUNDS)
        ]

    def __call__(self, places: Numbers) -> Numbers:
        """Return the numbers at ``places``, each from 0 to ``count`` - 1."""
        numbers = self._moved(places)
        while len(outside := np.flatnonzero(numbers >= self.count)):
            numbers[outside] = self._moved(numbers[outside])
        return numbers

    def _moved(self, places: Numbers) -> Numbers:
        row, column = places >> self.bits, places & (self.across - 1)
        for down, across in self.rounds:
            row = self.wrapped[row + down[column]]
            column ^= across[row]  # columns are a power of two, so nothing falls over their edge
        return (row << self.bits) | column


class TemperatureSampler:
    """Epochs in which a tag (a language) of n rows is drawn in proportion to ``n ** (1 / temperature)``.

    An epoch has as many draws as there are rows. The draws of a tag go round and round its shuffled rows, each epoch
    going on where the one before ended: within an epoch no two rows of a tag are drawn more unequally than by one,
    and none is drawn twice before all have been drawn.

    Source: Arivazhagan et al. 2019, https://arxiv.org/abs/1907.05019

    Args:
        rows: every row's number, tag after tag.
        starts: where each tag's rows begin in ``rows``, and at last their number.
        temperature: 1 draws as in the data, infinity all tags alike.
        seed: 0 or more.
    """

    def __init__(self, rows: npt.NDArray[np.integer], starts: Numbers, temperature: float, seed: int) -> None:
        self.rows = rows
        self.starts = starts
        self.counts = np.diff(starts)
        self.ends = np.cumsum(shares(self.counts, temperature))
        self.orders = [Permutation(int(count), (seed, tag)) for tag, count in enumerate(self.counts)]

    def draw(self, epoch: int, draws: Numbers) -> Numbers:
        """Return the rows of so many ``draws``, each from 0 to the number of rows - 1, tag after tag."""
        tags = np.searchsorted(self.ends, draws, side="right")
        found = np.empty_like(draws)
        for tag in np.unique(tags).tolist():
            mine = tags == tag
            begin = int(self.ends[tag - 1]) if tag else 0
            gone = epoch * (int(self.ends[tag]) - begin)
            places = self.orders[tag]((gone + draws[mine] - begin) % self.counts[tag])
            found[mine] = self.rows[self.starts[tag] + places]
        return found


def shares(counts: Numbers, temperature: float) -> Numbers:
    """Share out the sum of ``counts`` in proportion to ``counts ** (1 / temperature)``, in whole numbers.

    >>> shares(np.array([900, 100]), 2.0).tolist()  # as 30 to 10
    [750, 250]
    """
    weights = np.where(counts > 0, counts.astype(np.float64) ** (1 / temperature), 0.0)
    exact = counts.sum() * weights / max(weights.sum(), 1.0)
    whole: Numbers = np.floor(exact).astype(np.int64)
    # What rounding down has left over goes to those who lost most by it.
    most = np.argsort(whole - exact, kind="stable")[: counts.sum() - whole.sum()]
    whole[most] += 1
    return whole
