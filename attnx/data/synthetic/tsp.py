"""Short round trips through points: the shortest by dynamic programming, or good ones by local search; many at once.

Distances are (b, n, n), tours (b, n) numbers from 0: they begin at 0 and go on to the lower of its two neighbors.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Distances = npt.NDArray[np.float64]
Tours = npt.NDArray[np.int64]

NUMBERS = 2_000_000
"""How many numbers of a table are in memory at a time."""
STARTS = 8
LONGEST_MOVE = 3
"""A local search starts from so many tours, and moves so many points at most at once."""


def distances(points: npt.NDArray[np.floating]) -> Distances:
    """(b, n, 2) -> (b, n, n)."""
    apart = points[:, :, None].astype(np.float64) - points[:, None]
    found: Distances = np.sqrt(np.square(apart).sum(-1))
    return found


def lengths(apart: Distances, tours: Tours) -> npt.NDArray[np.float64]:
    """How long each tour (b, n) is, the way back included.

    >>> square = distances(np.array([[[0, 0], [0, 1], [1, 1], [1, 0]]]))
    >>> lengths(square, np.array([[0, 1, 2, 3]])).tolist()
    [4.0]
    """
    rows = np.arange(len(tours))[:, None]
    total: npt.NDArray[np.float64] = apart[rows, tours, np.roll(tours, -1, 1)].sum(1)
    return total


def shortest(apart: Distances) -> Tours:
    """The shortest tours; time and memory double with each point.

    Held and Karp 1962, https://doi.org/10.1137/0110015: of every set of points and each last one in it, the shortest
    way there from point 0.

    >>> shortest(distances(np.array([[[0, 0], [1, 1], [0, 1], [1, 0]]]))).tolist()
    [[0, 2, 1, 3]]
    """
    others = apart.shape[1] - 1
    return _in_parts(_shortest, apart, max(1, others) << others)


def _shortest(apart: Distances) -> Tours:
    rows, others = np.arange(len(apart)), apart.shape[1] - 1
    between, sets = apart[:, 1:, 1:], np.arange(1 << others)
    members = sets[:, None] >> np.arange(others) & 1
    ways = np.full((len(apart), 1 << others, others), np.inf)
    ways[:, 1 << np.arange(others), np.arange(others)] = apart[:, 0, 1:]
    for size in range(2, others + 1):
        for last in range(others):
            there = sets[(members.sum(1) == size) & (members[:, last] == 1)]
            before = there ^ (1 << last)
            ways[:, there, last] = (ways[:, before] + between[:, None, :, last]).min(-1)
    tours = np.zeros((len(apart), others + 1), dtype=np.int64)
    left, onward = np.full(len(apart), (1 << others) - 1), apart[:, 1:, 0]
    for place in range(others, 0, -1):
        last = (ways[rows, left] + onward).argmin(1)
        tours[:, place] = last + 1
        left, onward = left ^ (1 << last), between[rows, :, last]
    return turned(tours)


def good(apart: Distances) -> Tours:
    """Tours that no exchange of two edges, and no move of up to three points, makes shorter: the best of eight.

    From nearest neighbors (Rosenkrantz et al. 1977) by 2-opt (Croes 1958, https://doi.org/10.1287/opre.6.6.791) and
    or-opt (Or 1976), always the best step first.
    """
    if apart.shape[1] < 4:  # then there is one tour alone
        return np.arange(apart.shape[1])[None].repeat(len(apart), 0)
    return _in_parts(_good, apart, 8 * STARTS * apart.shape[1] ** 2)


def _good(apart: Distances) -> Tours:
    count = min(STARTS, apart.shape[1])
    many = apart.repeat(count, 0)
    tours = _nearest(many, np.tile(np.linspace(0, apart.shape[1] - 1, count).astype(int), len(apart)))
    going = np.arange(len(tours))
    while len(going):
        better, gained = _improved(many[going], tours[going])
        going = going[gained]
        tours[going] = better[gained]
    total = lengths(many, tours).reshape(len(apart), count)
    return turned(tours.reshape(len(apart), count, -1)[np.arange(len(apart)), total.argmin(1)])


def _nearest(apart: Distances, starts: npt.NDArray[np.int64]) -> Tours:
    """From each start always on to the nearest point that is left."""
    rows, left = np.arange(len(apart)), np.ones(apart.shape[:2], dtype=bool)
    tours = [starts]
    for _ in range(apart.shape[1] - 1):
        left[rows, tours[-1]] = False
        tours.append(np.where(left, apart[rows, tours[-1]], np.inf).argmin(1))
    return np.stack(tours, 1)


def _improved(apart: Distances, tours: Tours) -> tuple[Tours, npt.NDArray[np.bool_]]:
    """Each tour after the best step there is, and whether it is shorter."""
    rows, size = np.arange(len(tours)), tours.shape[1]
    along = np.take_along_axis(np.take_along_axis(apart, tours[:, :, None], 1), tours[:, None], 2)
    edges = along[:, np.arange(size), (np.arange(size) + 1) % size]
    steps = [_exchanges(along, edges)]
    moves = [(length, back) for length in range(1, min(LONGEST_MOVE, size - 3) + 1) for back in (False, True)]
    steps += [_moves(along, edges, length, back) for length, back in moves]
    change = np.stack(steps, 1).reshape(len(tours), len(steps), -1)
    each = change.min(-1)
    kind = each.argmin(1)
    first, second = np.divmod(change[rows, kind].argmin(-1), size)
    places = np.arange(size)
    inside = (places > first[:, None]) & (places <= second[:, None])
    keys = np.where(inside, (first + second)[:, None] + 1 - places, places).astype(float)
    for number, (length, back) in enumerate(moves, 1):
        at = places - first[:, None]
        moved = second[:, None] + (length - at if back else 1 + at) / (length + 1)
        keys = np.where((kind == number)[:, None], np.where((at >= 0) & (at < length), moved, places), keys)
    return np.take_along_axis(tours, keys.argsort(1), 1), each.min(1) < -1e-9


def _exchanges(along: Distances, edges: Distances) -> Distances:
    """How much longer (b, i, j) a tour is when what lies behind place i, up to j, is turned round."""
    change = along + np.roll(along, (-1, -1), (1, 2)) - edges[:, :, None] - edges[:, None]
    return np.where(np.triu(np.ones(along.shape[1:], dtype=bool), 1), change, 0.0)


def _moves(along: Distances, edges: Distances, length: int, back: bool) -> Distances:
    """How much longer (b, i, j) a tour is when so many points from place i on go, perhaps turned, behind place j."""
    size = along.shape[1]
    places = np.arange(size)
    ends = (places + length - 1) % size
    before, behind = (places - 1) % size, (places + length) % size
    removed = edges[:, before] + edges[:, ends] - along[:, before, behind]
    first, last = (ends, places) if back else (places, ends)
    added = along[:, :, first].swapaxes(1, 2) + along[:, last][:, :, (places + 1) % size] - edges[:, None]
    apart = (places - places[:, None]) % size
    possible = (apart >= length) & (apart < size - 1) & (places[:, None] <= size - length)
    return np.where(possible, added - removed[:, :, None], 0.0)


def turned(tours: Tours) -> Tours:
    """The same round trips, from point 0 on and to the lower of its neighbors first.

    >>> turned(np.array([[1, 3, 0, 2]])).tolist()
    [[0, 2, 1, 3]]
    """
    size = tours.shape[1]
    start = (tours == 0).argmax(1)[:, None]
    forwards, backwards = (np.take_along_axis(tours, (start + way * np.arange(size)) % size, 1) for way in (1, -1))
    second = min(1, size - 1)
    return np.where(forwards[:, second : second + 1] <= backwards[:, second : second + 1], forwards, backwards)


def _in_parts(solve: object, apart: Distances, numbers: int) -> Tours:
    """Some tables at a time."""
    assert callable(solve)
    at_once = max(1, NUMBERS // numbers)
    return np.concatenate([solve(apart[start : start + at_once]) for start in range(0, len(apart), at_once)])
