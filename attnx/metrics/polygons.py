"""What sequences of positions mean as polygons, round trips and sets of triangles, and what of them is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Order = Sequence[int]
Triangle = tuple[int, ...]


class Answer(NamedTuple):
    """A question and what is right: points (n, columns), and positions from 0."""

    points: npt.NDArray[np.floating]
    order: Order


def opened(order: Order) -> tuple[int, ...]:
    """A way round without the last step, if that leads back to the first.

    >>> opened([2, 5, 3, 2]), opened([2, 5, 3])
    ((2, 5, 3), (2, 5, 3))
    """
    closed = len(order) > 1 and order[0] == order[-1]
    return tuple(order[:-1] if closed else order)


def polygon(order: Order) -> tuple[int, ...]:
    """The same for every sequence that goes round the same corners, wherever it begins and whichever way it goes.

    >>> polygon([5, 3, 2, 5]), polygon([2, 3, 5])
    ((2, 3, 5), (2, 3, 5))
    """
    corners = opened(order)
    if not corners:
        return ()
    start = corners.index(min(corners))
    forwards = corners[start:] + corners[:start]
    return min(forwards, (forwards[0], *forwards[:0:-1]))


def triangles(order: Order) -> frozenset[Triangle]:
    """The set of triangles that a sequence of threes names; what is left over is no triangle, nor is [7, 7, 5].

    >>> sorted(triangles([0, 2, 1, 3, 1, 2, 5]))
    [(0, 1, 2), (1, 2, 3)]
    """
    threes = (order[start : start + 3] for start in range(0, len(order) - 2, 3))
    return frozenset(tuple(sorted(three)) for three in threes if len(set(three)) == 3)


def area(points: npt.NDArray[np.floating], order: Order) -> float:
    """The area that a way round encloses.

    >>> area(np.array([[0, 0], [3, 0], [3, 2], [0, 2]]), [0, 1, 2, 3])
    6.0
    """
    x, y = points[list(opened(order))].astype(np.float64).T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)


def simple(points: npt.NDArray[np.floating], order: Order) -> bool:
    """Whether a way round is a polygon that neither crosses nor touches itself, of three corners or more.

    >>> square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    >>> simple(square, [0, 1, 2, 3, 0]), simple(square, [0, 2, 1, 3, 0]), simple(square, [0, 1, 0])
    (True, False, False)
    """
    corners = opened(order)
    count = len(corners)
    if count < 3 or len(set(corners)) < count or not within(points, corners):
        return False
    begin = points[list(corners)].astype(np.float64)
    end = np.roll(begin, -1, 0)
    # Two edges that share no corner meet unless the ends of one lie on one side of the other.
    side_begin, side_end = (np.sign(_cross(end - begin, other[None] - begin[:, None])) for other in (begin, end))
    apart = side_begin * side_end > 0
    numbers = np.arange(count)
    gap = (numbers - numbers[:, None]) % count
    return bool((apart | apart.T)[(gap > 1) & (gap < count - 1)].all())


def _cross(edge: npt.NDArray[np.float64], to: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(e, 2), (e, p, 2) -> (e, p), above 0 where p lies to the left of e."""
    found: npt.NDArray[np.float64] = edge[:, None, 0] * to[..., 1] - edge[:, None, 1] * to[..., 0]
    return found


def within(points: npt.NDArray[np.floating], order: Order) -> bool:
    """Whether all positions are those of points."""
    return all(0 <= place < len(points) for place in order)


def round_trip(points: npt.NDArray[np.floating], order: Order) -> bool:
    """Whether a way round comes to every point once."""
    return sorted(opened(order) if len(points) > 1 else order) == list(range(len(points)))


def length(points: npt.NDArray[np.floating], order: Order) -> float:
    """How long a way round is.

    >>> length(np.array([[0, 0], [3, 0], [3, 4]]), [0, 1, 2])
    12.0
    """
    stops = points[list(opened(order))].astype(np.float64)
    return float(np.linalg.norm(stops - np.roll(stops, -1, 0), axis=-1).sum())
