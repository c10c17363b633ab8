"""Answers to pointing problems: when they are right, when they are well formed, and their geometry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Order = Sequence[int]
Points = npt.NDArray[np.floating]
Form = Literal["order", "polygon", "round_trip", "triangles"]

ANSWER_FORMS: Final[dict[str, Form]] = {
    "hull": "polygon",
    "delaunay": "triangles",
    "tsp": "round_trip",
    "sorting": "order",
}
"""What the answers to each problem are, by its name in ``task.problem``."""


class PointingReference(NamedTuple):
    """The points (n, columns) of a problem, and the right answer as positions from 0."""

    points: Points
    order: Order


def is_right_answer(form: Form, answer: Order, reference: PointingReference) -> bool:
    """Whether an answer equals the reference in meaning: see ``answer_accuracy``."""
    if form == "order":
        return list(answer) == list(reference.order)
    if form == "triangles":
        return is_well_formed(form, answer, reference) and triangle_set(answer) == triangle_set(reference.order)
    return canonical_polygon(answer) == canonical_polygon(reference.order)


def is_well_formed(form: Form, answer: Order, reference: PointingReference) -> bool:
    """Whether an answer, right or wrong, has the required form: see ``well_formed``."""
    points = reference.points
    if form == "polygon":
        return is_simple_polygon(points, answer)
    if form == "round_trip":
        return is_round_trip(points, answer)
    if form == "order":
        return sorted(answer) == list(range(len(points)))
    return 0 < len(answer) == 3 * len(triangle_set(answer)) and are_positions(points, answer)


def read_positions(symbols: Iterable[str]) -> list[int]:
    """Symbols, which count from 1, as positions from 0; -1 for other symbols."""
    return [int(symbol) - 1 if symbol.isdecimal() else -1 for symbol in symbols]


def open_path(order: Order) -> tuple[int, ...]:
    """A path without its last step if that returns to the first position.

    >>> open_path([2, 5, 3, 2]), open_path([2, 5, 3])
    ((2, 5, 3), (2, 5, 3))
    """
    is_closed = len(order) > 1 and order[0] == order[-1]
    return tuple(order[:-1] if is_closed else order)


def canonical_polygon(order: Order) -> tuple[int, ...]:
    """Canonical form of a polygon: equal for any start and either direction.

    >>> canonical_polygon([5, 3, 2, 5]), canonical_polygon([2, 3, 5])
    ((2, 3, 5), (2, 3, 5))
    """
    corners = open_path(order)
    if not corners:
        return ()
    start = corners.index(min(corners))
    forwards = corners[start:] + corners[:start]
    return min(forwards, (forwards[0], *forwards[:0:-1]))


def triangle_set(order: Order) -> frozenset[tuple[int, ...]]:
    """The set of triangles that a sequence of triples names; incomplete and degenerate triples ([7, 7, 5]) are ignored.

    >>> sorted(triangle_set([0, 2, 1, 3, 1, 2, 5]))
    [(0, 1, 2), (1, 2, 3)]
    """
    triples = (order[start : start + 3] for start in range(0, len(order) - 2, 3))
    return frozenset(tuple(sorted(triple)) for triple in triples if len(set(triple)) == 3)


def polygon_area(points: Points, order: Order) -> float:
    """Area of a polygon."""
    x, y = points[list(open_path(order))].astype(np.float64).T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)


def is_simple_polygon(points: Points, order: Order) -> bool:
    """Whether a path is a polygon of three corners or more that neither crosses nor touches itself.

    >>> square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    >>> [is_simple_polygon(square, path) for path in ([0, 1, 2, 3, 0], [0, 2, 1, 3, 0], [0, 1, 0])]
    [True, False, False]
    >>> is_simple_polygon(np.array([[0, 0], [1, 0], [3, 0]]), [0, 2, 1])
    False
    """
    corners = open_path(order)
    count = len(corners)
    if count < 3 or len(set(corners)) < count or not are_positions(points, corners):
        return False
    starts = points[list(corners)].astype(np.float64)
    ends = np.roll(starts, -1, 0)
    steps = ends - starts
    following = np.roll(steps, -1, 0)
    is_straight = _cross(steps, following[:, None])[:, 0] == 0
    if (is_straight & ((steps * following).sum(-1) < 0)).any():  # back along itself
        return False
    # Two edges without a common corner meet unless both ends of one lie on one side of the other, or they are apart.
    start_sides, end_sides = (np.sign(_cross(steps, ps[None] - starts[:, None])) for ps in (starts, ends))
    same_side = start_sides * end_sides > 0
    low, high = np.minimum(starts, ends), np.maximum(starts, ends)
    is_disjoint = (low[None] > high[:, None]).any(-1)
    edges = np.arange(count)
    gap = (edges - edges[:, None]) % count
    return bool((same_side | same_side.T | is_disjoint | is_disjoint.T)[(gap > 1) & (gap < count - 1)].all())


def _cross(edges: npt.NDArray[np.float64], offsets: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Cross products (e, 2), (e, p, 2) -> (e, p), positive where p lies to the left of e."""
    return np.asarray(edges[:, None, 0] * offsets[..., 1] - edges[:, None, 1] * offsets[..., 0])


def are_positions(points: Points, order: Order) -> bool:
    """Whether all entries are positions of points."""
    return all(0 <= position < len(points) for position in order)


def is_round_trip(points: Points, order: Order) -> bool:
    """Whether a path visits every point once."""
    return sorted(open_path(order) if len(points) > 1 else order) == list(range(len(points)))


def path_length(points: Points, order: Order) -> float:
    """Length of a closed path."""
    stops = points[list(open_path(order))].astype(np.float64)
    return float(np.linalg.norm(stops - np.roll(stops, -1, 0), axis=-1).sum())
