"""Problems whose answers are positions in the question: points drawn by chance from a seed, and what is right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, Literal, NamedTuple

import numpy as np

from attnx.data.batches import PairDataset, Ragged
from attnx.data.features import Features, Matrix
from attnx.data.special_tokens import EOS
from attnx.data.synthetic.geometry import convex_hull, triangulation
from attnx.data.synthetic.tsp import distances, good, shortest
from attnx.data.vocabulary import SPECIALS
from attnx.errors import UserError

Problem = Literal["hull", "delaunay", "tsp", "sorting"]

COLUMNS: Final = {"hull": ("x", "y"), "delaunay": ("x", "y"), "tsp": ("x", "y"), "sorting": ("value",)}
FEWEST: Final = {"hull": 3, "delaunay": 3, "tsp": 2, "sorting": 1}
MOST_EXACT: Final = 16
"""Up to so many points a shortest tour takes a fraction of a second and less than 20 MB."""
CHUNK = 1024  # examples that are drawn together: more of them leave the first ones as they are


class PointingExample(NamedTuple):
    """One example: points (n, columns) in [0, 1), and the positions, from 0, that answer it."""

    points: Matrix
    answer: list[int]


def pose(
    problem: Problem, sizes: Sequence[int], count: int, seed: Sequence[int], exact: int
) -> Iterator[PointingExample]:
    """Draw examples; the first has the first of the sizes, the next the next one, round and round.

    Args:
        problem: what is asked.
        sizes: how many points an example may have.
        count: how many examples.
        seed: numbers that decide all that is drawn.
        exact: tours of up to so many points are the shortest there are, those of more the best of a local search.

    Raises:
        UserError: an example has too few points for the problem.
    """
    if min(sizes) < FEWEST[problem]:
        raise UserError(f"problem={problem} needs {FEWEST[problem]} points or more, and {min(sizes)} are asked for")
    for chunk, start in enumerate(range(0, count, CHUNK)):
        chance = np.random.default_rng([*seed, chunk])
        lengths = [sizes[number % len(sizes)] for number in range(start, start + CHUNK)]
        flat = chance.random((sum(lengths), len(COLUMNS[problem])), dtype=np.float32)
        drawn = np.split(flat, np.cumsum(lengths)[:-1])[: count - start]
        yield from map(PointingExample, drawn, answers(problem, drawn, exact))


def answers(problem: Problem, drawn: Sequence[Matrix], exact: int) -> list[list[int]]:
    """What is right, in the order in which it is to be written.

    Tours begin at the first point and go on to the lower of its neighbors; those of one size are found together.
    """
    if problem == "hull":
        return [convex_hull(points) for points in drawn]
    if problem == "delaunay":
        return [triangulation(points) for points in drawn]
    if problem == "sorting":
        return [[int(place) for place in points[:, 0].argsort(kind="stable")] for points in drawn]
    found: dict[int, list[int]] = {}
    sizes = np.array([len(points) for points in drawn])
    for size in np.unique(sizes).tolist():
        numbers = np.flatnonzero(sizes == size).tolist()
        apart = distances(np.stack([drawn[number] for number in numbers]))
        tours = shortest(apart) if size <= exact else good(apart)
        found.update(zip(numbers, tours.tolist(), strict=True))
    return [found[number] for number in range(len(drawn))]


def rows(posed: Iterable[PointingExample], scales: Features) -> PairDataset:
    """Examples as rows to train on, in a handful of arrays: scaled points, and ids, each answer ended by EOS."""
    examples, sources, targets = iter(posed), [], []
    while some := list(islice(examples, CHUNK)):
        sources.append(Ragged.of_matrices([scales.encode(one.points) for one in some]))
        targets.append(Ragged.of([*(len(SPECIALS) + place for place in one.answer), EOS] for one in some))
    return PairDataset(_together(sources), _together(targets))


def _together(parts: Sequence[Ragged]) -> Ragged:
    """One after another, end to end."""
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    return Ragged(np.concatenate([part.flat for part in parts]), np.append(0, np.cumsum(lengths)))
