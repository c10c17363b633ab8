"""Short round trips (TSP tours): exact by dynamic programming, or good by local search; in batches.

Distance matrices are (b, n, n), tours (b, n) indices: a tour starts at 0 and continues with the lower of its neighbors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Distances = npt.NDArray[np.float64]
Tours = npt.NDArray[np.int64]

MAX_TABLE_NUMBERS = 500_000  # in memory at a time; more than a cache holds takes longer
NUM_STARTS = 8  # initial tours of a local search
MAX_MOVED_POINTS = 3
MIN_GAIN = 1e-9


def distances(points: npt.NDArray[np.floating]) -> Distances:
    """(b, n, 2) -> (b, n, n)."""
    differences = points[:, :, None].astype(np.float64) - points[:, None]
    matrix: Distances = np.sqrt(np.square(differences).sum(-1))
    return matrix


def tour_lengths(matrix: Distances, tours: Tours) -> npt.NDArray[np.float64]:
    """Return the length of each tour (b, n), including the way back."""
    rows = np.arange(len(tours))[:, None]
    total: npt.NDArray[np.float64] = matrix[rows, tours, np.roll(tours, -1, 1)].sum(1)
    return total


def shortest_tours(matrix: Distances) -> Tours:
    """Return the shortest tours; time and memory double with each point.

    Held and Karp 1962, https://doi.org/10.1137/0110015: for each set of points and each last point in it, the shortest
    path from point 0.
    """
    size = matrix.shape[1] - 1
    return _solve_in_chunks(_shortest_tours, matrix, max(1, size) << size)


def _shortest_tours(matrix: Distances) -> Tours:
    rows, size = np.arange(len(matrix)), matrix.shape[1] - 1
    between, sets = matrix[:, 1:, 1:], np.arange(1 << size)
    members = sets[:, None] >> np.arange(size) & 1
    path_lengths = np.full((len(matrix), 1 << size, size), np.inf)
    path_lengths[:, 1 << np.arange(size), np.arange(size)] = matrix[:, 0, 1:]
    for set_size in range(2, size + 1):
        for last in range(size):
            current = sets[(members.sum(1) == set_size) & (members[:, last] == 1)]
            previous = current ^ (1 << last)
            path_lengths[:, current, last] = (path_lengths[:, previous] + between[:, None, :, last]).min(-1)
    tours = np.zeros((len(matrix), size + 1), dtype=np.int64)
    remaining, next_distance = np.full(len(matrix), (1 << size) - 1), matrix[:, 1:, 0]
    for position in range(size, 0, -1):
        last = (path_lengths[rows, remaining] + next_distance).argmin(1)
        tours[:, position] = last + 1
        remaining, next_distance = remaining ^ (1 << last), between[rows, :, last]
    return normalize_tours(tours)


def local_search_tours(matrix: Distances) -> Tours:
    """Return the best of eight tours that no exchange of two edges and no move of up to three points shortens.

    From nearest-neighbor tours (Rosenkrantz et al. 1977) by 2-opt (Croes 1958, https://doi.org/10.1287/opre.6.6.791)
    and or-opt (Or 1976), always the best step first.
    """
    if matrix.shape[1] < 4:  # there is only one tour
        return np.arange(matrix.shape[1])[None].repeat(len(matrix), 0)
    return _solve_in_chunks(_local_search_tours, matrix, 8 * NUM_STARTS * matrix.shape[1] ** 2)


def _local_search_tours(matrix: Distances) -> Tours:
    num_starts = min(NUM_STARTS, matrix.shape[1])
    repeated = matrix.repeat(num_starts, 0)
    starts = np.linspace(0, matrix.shape[1] - 1, num_starts).astype(int)
    tours = _nearest_neighbor_tours(repeated, np.tile(starts, len(matrix)))
    active = np.arange(len(tours))
    while len(active):
        improved, is_shorter = _best_step(repeated[active], tours[active])
        active = active[is_shorter]
        tours[active] = improved[is_shorter]
    total = tour_lengths(repeated, tours).reshape(len(matrix), num_starts)
    return normalize_tours(tours.reshape(len(matrix), num_starts, -1)[np.arange(len(matrix)), total.argmin(1)])


def _nearest_neighbor_tours(matrix: Distances, starts: npt.NDArray[np.int64]) -> Tours:
    """From each start, always continue with the nearest unvisited point."""
    rows, is_unvisited = np.arange(len(matrix)), np.ones(matrix.shape[:2], dtype=bool)
    tours = [starts]
    for _ in range(matrix.shape[1] - 1):
        is_unvisited[rows, tours[-1]] = False
        tours.append(np.where(is_unvisited, matrix[rows, tours[-1]], np.inf).argmin(1))
    return np.stack(tours, 1)


def _best_step(matrix: Distances, tours: Tours) -> tuple[Tours, npt.NDArray[np.bool_]]:
    """Return each tour after the best step, and whether it is shorter."""
    rows, size = np.arange(len(tours)), tours.shape[1]
    ordered = np.take_along_axis(np.take_along_axis(matrix, tours[:, :, None], 1), tours[:, None], 2)
    edges = ordered[:, np.arange(size), (np.arange(size) + 1) % size]
    moves = [
        (length, is_reversed)
        for length in range(1, min(MAX_MOVED_POINTS, size - 3) + 1)
        for is_reversed in (False, True)
    ]
    # (b, i, j) change of length if the points after position i up to j are reversed
    reversals = ordered + np.roll(ordered, (-1, -1), (1, 2)) - edges[:, :, None] - edges[:, None]
    steps = [
        np.where(np.triu(np.ones((size, size), dtype=bool), 1), reversals, 0.0),
        *(_move_changes(ordered, edges, length, is_reversed) for length, is_reversed in moves),
    ]
    changes = np.stack(steps, 1).reshape(len(tours), len(steps), -1)
    best = changes.min(-1)
    kind = best.argmin(1)
    first, second = np.divmod(changes[rows, kind].argmin(-1), size)
    positions = np.arange(size)
    is_inside = (positions > first[:, None]) & (positions <= second[:, None])
    keys = np.where(is_inside, (first + second)[:, None] + 1 - positions, positions).astype(float)
    for index, (length, is_reversed) in enumerate(moves, 1):
        offsets = (positions - first[:, None]) % size
        moved = second[:, None] + (length - offsets if is_reversed else 1 + offsets) / (length + 1)
        keys = np.where((kind == index)[:, None], np.where(offsets < length, moved, positions), keys)
    return np.take_along_axis(tours, keys.argsort(1), 1), best.min(1) < -MIN_GAIN


def _move_changes(ordered: Distances, edges: Distances, length: int, is_reversed: bool) -> Distances:
    """(b, i, j) change of length if ``length`` points from position i on move behind position j."""
    size = ordered.shape[1]
    positions = np.arange(size)
    ends = (positions + length - 1) % size
    previous, following = (positions - 1) % size, (positions + length) % size
    removed = edges[:, previous] + edges[:, ends] - ordered[:, previous, following]
    first, last = (ends, positions) if is_reversed else (positions, ends)
    added = ordered[:, :, first].swapaxes(1, 2) + ordered[:, last][:, :, (positions + 1) % size] - edges[:, None]
    gaps = (positions - positions[:, None]) % size
    is_possible = (gaps >= length) & (gaps < size - 1)
    return np.where(is_possible, added - removed[:, :, None], 0.0)


def normalize_tours(tours: Tours) -> Tours:
    """Rotate and reverse tours to start at point 0 and continue with the lower of its neighbors.

    >>> normalize_tours(np.array([[1, 3, 0, 2]])).tolist()
    [[0, 2, 1, 3]]
    """
    size = tours.shape[1]
    start = (tours == 0).argmax(1)[:, None]
    forwards, backwards = (np.take_along_axis(tours, (start + step * np.arange(size)) % size, 1) for step in (1, -1))
    second = min(1, size - 1)
    return np.where(forwards[:, second : second + 1] <= backwards[:, second : second + 1], forwards, backwards)


def _solve_in_chunks(solve: Callable[[Distances], Tours], matrix: Distances, numbers: int) -> Tours:
    """Solve as many problems at once as memory allows; each needs ``numbers`` numbers."""
    chunk = max(1, MAX_TABLE_NUMBERS // numbers)
    return np.concatenate([solve(matrix[start : start + chunk]) for start in range(0, len(matrix), chunk)])
