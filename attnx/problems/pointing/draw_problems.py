"""Problems with positions of the input as answers: random points from a seed, and their answers.

Hulls and triangulations are written as the output sequences of Pointer Networks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Literal

import numpy as np

from attnx.data.dataset import PairDataset, Ragged
from attnx.data.features import FeatureScaler, Matrix
from attnx.data.vocabulary import EOS, SPECIALS
from attnx.errors import UserError

from .answers import PointingReference, Points
from .tsp import distances, local_search_tours, shortest_tours

Problem = Literal["hull", "delaunay", "tsp", "sorting"]

POINT_COLUMNS: Final = {"hull": ("x", "y"), "delaunay": ("x", "y"), "tsp": ("x", "y"), "sorting": ("value",)}
MIN_POINTS: Final = {"hull": 3, "delaunay": 3, "tsp": 2, "sorting": 1}
MAX_POINTS_FOR_EXACT_TOUR: Final = 16
"""A shortest tour of so many points takes a fraction of a second and less than 20 MB."""
EXAMPLES_PER_CHUNK = 1024  # drawn together, so that more examples do not change the first ones


def draw_problems(
    problem: Problem, sizes: Sequence[int], count: int, seed: Sequence[int], max_exact_points: int
) -> Iterator[PointingReference]:
    """Draw ``count`` examples with the sizes (numbers of points) in turn; points are in [0, 1).

    Tours of more than ``max_exact_points`` points come from a local search. Too small a size is a UserError.
    """
    if min(sizes) < MIN_POINTS[problem]:
        raise UserError(f"problem={problem} needs {MIN_POINTS[problem]} points or more, but a size is {min(sizes)}")
    for chunk, start in enumerate(range(0, count, EXAMPLES_PER_CHUNK)):
        rng = np.random.default_rng([*seed, chunk])
        lengths = [sizes[index % len(sizes)] for index in range(start, start + EXAMPLES_PER_CHUNK)]
        flat = rng.random((sum(lengths), len(POINT_COLUMNS[problem])), dtype=np.float32)
        points = np.split(flat, np.cumsum(lengths)[:-1])[: count - start]
        yield from map(PointingReference, points, solve(problem, points, max_exact_points))


def solve(problem: Problem, examples: Sequence[Matrix], max_exact_points: int) -> list[list[int]]:
    """Return the answers as sequences of positions.

    Tours start at the first point and continue with the lower of its neighbors; tours of equal size are solved at once.
    """
    if problem == "hull":
        return [convex_hull(points) for points in examples]
    if problem == "delaunay":
        return [triangulation(points) for points in examples]
    if problem == "sorting":
        return [[int(index) for index in points[:, 0].argsort(kind="stable")] for points in examples]
    answers: dict[int, list[int]] = {}
    sizes = np.array([len(points) for points in examples])
    for size in np.unique(sizes).tolist():
        indices = np.flatnonzero(sizes == size).tolist()
        matrix = distances(np.stack([examples[index] for index in indices]))
        tours = shortest_tours(matrix) if size <= max_exact_points else local_search_tours(matrix)
        answers.update(zip(indices, tours.tolist(), strict=True))
    return [answers[index] for index in range(len(examples))]


def encode_examples(examples: Iterable[PointingReference], scales: FeatureScaler) -> PairDataset:
    """Encode examples as training rows: scaled points, and the ids of each answer, ended by EOS."""
    stream, sources, targets = iter(examples), [], []
    while chunk := list(islice(stream, EXAMPLES_PER_CHUNK)):
        sources.append(Ragged.of(scales.encode(example.points) for example in chunk))
        targets.append(Ragged.of([*(len(SPECIALS) + index for index in example.order), EOS] for example in chunk))
    return PairDataset(Ragged.concat(sources), Ragged.concat(targets))


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

    >>> triangulation(np.array([[0.0, 0.0], [3.0, 0.0], [1.0, 1.0], [0.0, 4.0]]))
    [0, 2, 3, 0, 1, 2, 1, 2, 3]
    """
    triangles = np.sort(_run_qhull("Delaunay", points, "triangulation").simplices, axis=1)
    x, y = incenters(points.astype(np.float64)[triangles]).T
    return [int(corner) for corner in triangles[np.lexsort((y, x))].flatten()]


def incenters(corners: Points) -> Points:
    """Return the incenters (t, 2) of triangles (t, 3, 2): corners weighted by the length of the opposite side."""
    sides = np.linalg.norm(np.roll(corners, -1, 1) - np.roll(corners, 1, 1), axis=-1)[..., None]
    centers: Points = (sides * corners).sum(1) / sides.sum(1)
    return centers


def check_distinct_points(points: Points) -> None:
    """Raise a UserError if two points (n, d) are equal; they are counted from 1, like symbols."""
    positions: dict[tuple[float, ...], int] = {}
    for position, point in enumerate(map(tuple, points.tolist()), 1):
        if point in positions:
            numbers = ", ".join(f"{number:.7g}" for number in point)
            raise UserError(f"the points {positions[point]} and {position} are both ({numbers}); remove one of them")
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
