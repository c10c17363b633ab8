"""Problems with positions of the input as answers: random points from a seed, and their answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, Literal, NamedTuple

import numpy as np

from attnx.data.dataset import PairDataset
from attnx.data.features import Features, Matrix
from attnx.data.ragged import Ragged
from attnx.data.special_tokens import EOS
from attnx.data.synthetic.geometry import convex_hull, triangulation
from attnx.data.synthetic.tsp import distances, local_search_tours, shortest_tours
from attnx.data.vocabulary import SPECIALS
from attnx.errors import UserError

Problem = Literal["hull", "delaunay", "tsp", "sorting"]

COLUMNS: Final = {"hull": ("x", "y"), "delaunay": ("x", "y"), "tsp": ("x", "y"), "sorting": ("value",)}
MIN_POINTS: Final = {"hull": 3, "delaunay": 3, "tsp": 2, "sorting": 1}
MAX_POINTS_FOR_EXACT_TOUR: Final = 16
"""A shortest tour of so many points takes a fraction of a second and less than 20 MB."""
EXAMPLES_PER_CHUNK = 1024  # drawn together, so that more examples do not change the first ones


class PointingExample(NamedTuple):
    """Points (n, columns) in [0, 1), and the positions, from 0, that are the answer."""

    points: Matrix
    answer: list[int]


def draw_problems(
    problem: Problem, sizes: Sequence[int], count: int, seed: Sequence[int], max_exact_points: int
) -> Iterator[PointingExample]:
    """Draw ``count`` examples with the sizes (numbers of points) in turn.

    Tours of more than ``max_exact_points`` points come from a local search.

    Raises:
        UserError: a size is too small for the problem.
    """
    if min(sizes) < MIN_POINTS[problem]:
        raise UserError(f"problem={problem} needs {MIN_POINTS[problem]} points or more, but a size is {min(sizes)}")
    for chunk, start in enumerate(range(0, count, EXAMPLES_PER_CHUNK)):
        rng = np.random.default_rng([*seed, chunk])
        lengths = [sizes[index % len(sizes)] for index in range(start, start + EXAMPLES_PER_CHUNK)]
        flat = rng.random((sum(lengths), len(COLUMNS[problem])), dtype=np.float32)
        points = np.split(flat, np.cumsum(lengths)[:-1])[: count - start]
        yield from map(PointingExample, points, solve(problem, points, max_exact_points))


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


def encode_examples(examples: Iterable[PointingExample], scales: Features) -> PairDataset:
    """Encode examples as training rows: scaled points, and the ids of each answer, ended by EOS."""
    stream, sources, targets = iter(examples), [], []
    while chunk := list(islice(stream, EXAMPLES_PER_CHUNK)):
        sources.append(Ragged.from_matrices([scales.encode(example.points) for example in chunk]))
        targets.append(Ragged.of([*(len(SPECIALS) + index for index in example.answer), EOS] for example in chunk))
    return PairDataset(Ragged.concat(sources), Ragged.concat(targets))
