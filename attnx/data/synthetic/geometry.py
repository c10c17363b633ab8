"""Convex hulls and Delaunay triangulations of points in the plane, as the sequences that Pointer Networks write."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnx.errors import UserError

Points = npt.NDArray[np.floating]


def convex_hull(points: Points) -> list[int]:
    """The hull of points (n, 2): counter-clockwise from the corner with the lowest number, and back to it.

    Vinyals et al. 2015, section 2.2 and figure 2a, https://arxiv.org/abs/1506.03134. Numbers count from 0.

    Raises:
        UserError: two points coincide, or all lie on one line.

    >>> convex_hull(np.array([[0.5, 0.25], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0]]))
    [1, 2, 3, 1]
    """
    corners = _qhull("ConvexHull", points, "convex hull").vertices.tolist()
    start = corners.index(min(corners))
    return [*corners[start:], *corners[: start + 1]]


def triangulation(points: Points) -> list[int]:
    """The Delaunay triangles of points (n, 2), three numbers each, one triangle after another.

    A triangle's numbers rise; triangles come in the order of their incenters, x first. Vinyals et al. 2015, section
    2.2, https://arxiv.org/abs/1506.03134. Numbers count from 0.

    Raises:
        UserError: as :func:`convex_hull`.

    >>> triangulation(np.array([[0.0, 0.0], [3.0, 0.0], [1.0, 1.0], [0.0, 4.0]]))
    [0, 2, 3, 0, 1, 2, 1, 2, 3]
    """
    triangles = np.sort(_qhull("Delaunay", points, "triangulation").simplices, axis=1)
    x, y = incenters(points.astype(np.float64)[triangles]).T
    return [int(corner) for corner in triangles[np.lexsort((y, x))].flatten()]


def incenters(corners: Points) -> Points:
    """The centers (t, 2) of the inscribed circles of triangles (t, 3, 2): corners weighted by the side opposite.

    >>> incenters(np.array([[[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]]])).tolist()
    [[1.0, 1.0]]
    """
    sides = np.linalg.norm(np.roll(corners, -1, 1) - np.roll(corners, 1, 1), axis=-1)[..., None]
    centers: Points = (sides * corners).sum(1) / sides.sum(1)
    return centers


def refuse_coinciding(points: Points) -> None:
    """See that no two of the points (n, d) are one.

    Raises:
        UserError: two are; they are counted from 1, as symbols are.
    """
    seen: dict[tuple[float, ...], int] = {}
    for number, point in enumerate(map(tuple, points.tolist()), 1):
        if point in seen:
            raise UserError(f"the points {seen[point]} and {number} coincide, at {point}; leave one of them out")
        seen[point] = number


def _qhull(shape: str, points: Points, what: str) -> Any:
    """What Qhull finds."""
    from scipy import spatial  # late: nothing else here needs it, and it takes a while

    if len(points) < 3:
        raise UserError(f"a {what} needs 3 points or more, and there are {len(points)}")
    refuse_coinciding(points)
    try:
        return getattr(spatial, shape)(points)
    except spatial.QhullError as error:
        raise UserError(f"the {len(points)} points lie on one line, or so nearly that they have no {what}") from error
