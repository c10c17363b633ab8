"""Convex hulls and Delaunay triangulations as the output sequences of Pointer Networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnx.errors import UserError

Points = npt.NDArray[np.floating]


def convex_hull(points: Points) -> list[int]:
    """Return the hull of points (n, 2): counter-clockwise from its lowest index, which is repeated at the end.

    Vinyals et al. 2015, section 2.2 and figure 2a, https://arxiv.org/abs/1506.03134. Indices count from 0.

    Raises:
        UserError: two points coincide, or all lie on one line.

    >>> convex_hull(np.array([[0.5, 0.25], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0]]))
    [1, 2, 3, 1]
    """
    corners = _run_qhull("ConvexHull", points, "convex hull").vertices.tolist()
    start = corners.index(min(corners))
    return [*corners[start:], *corners[: start + 1]]


def triangulation(points: Points) -> list[int]:
    """Return the Delaunay triangles of points (n, 2), three indices each, as one sequence.

    A triangle's indices ascend; triangles are sorted by their incenters, x first. Vinyals et al. 2015, section
    2.2, https://arxiv.org/abs/1506.03134. Indices count from 0.

    Raises:
        UserError: as :func:`convex_hull`.

    >>> triangulation(np.array([[0.0, 0.0], [3.0, 0.0], [1.0, 1.0], [0.0, 4.0]]))
    [0, 2, 3, 0, 1, 2, 1, 2, 3]
    """
    triangles = np.sort(_run_qhull("Delaunay", points, "triangulation").simplices, axis=1)
    x, y = incenters(points.astype(np.float64)[triangles]).T
    return [int(corner) for corner in triangles[np.lexsort((y, x))].flatten()]


def incenters(corners: Points) -> Points:
    """Return the incenters (t, 2) of triangles (t, 3, 2): corners weighted by the length of the opposite side.

    >>> incenters(np.array([[[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]]])).tolist()
    [[1.0, 1.0]]
    """
    sides = np.linalg.norm(np.roll(corners, -1, 1) - np.roll(corners, 1, 1), axis=-1)[..., None]
    centers: Points = (sides * corners).sum(1) / sides.sum(1)
    return centers


def check_distinct_points(points: Points) -> None:
    """Check that all points (n, d) are different.

    Raises:
        UserError: two are equal; they are counted from 1, like symbols.
    """
    positions: dict[tuple[float, ...], int] = {}
    for position, point in enumerate(map(tuple, points.tolist()), 1):
        if point in positions:
            raise UserError(f"the points {positions[point]} and {position} are both {point}; remove one of them")
        positions[point] = position


def _run_qhull(shape: str, points: Points, what: str) -> Any:
    from scipy import spatial  # late: a slow import

    if len(points) < 3:
        raise UserError(f"a {what} needs 3 points or more, but there are {len(points)}")
    check_distinct_points(points)
    try:
        return getattr(spatial, shape)(points)
    except spatial.QhullError as error:
        raise UserError(f"the {len(points)} points lie on one line, or nearly so; they have no {what}") from error
