"""Hulls, triangulations and tours by hand and by definition; the seed alone decides the examples."""

from collections.abc import Sequence
from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import pytest

from attnx.errors import UserError
from attnx.problems.pointing import tsp
from attnx.problems.pointing.draw_problems import EXAMPLES_PER_CHUNK, convex_hull, draw_problems, solve, triangulation
from attnx.problems.pointing.pointing import Pointing
from attnx.problems.pointing.tsp import distances, local_search_tours, normalize_tours, shortest_tours, tour_lengths
from tests.refusal import refused

# Corners of a square, two points within, and the middle of a side; numbered out of order.
POINTS = np.array([[0.5, 0.5], [1, 1], [0.25, 0.5], [0, 0], [1, 0], [0, 1]])


def draw_points(seed: int, count: int, size: int) -> Any:
    return np.random.default_rng(seed).random((count, size, 2))


def left_of(points: Any, first: int, two: int, three: int) -> bool:
    (ax, ay), (bx, by), (cx, cy) = points[[first, two, three]].tolist()
    return (bx - ax) * (cy - ay) > (by - ay) * (cx - ax)


def test_a_hull_by_hand():
    """From the corner with the lowest number, 1, counter-clockwise: up left, down, right, and back."""
    assert convex_hull(POINTS) == [1, 5, 3, 4, 1]


@pytest.mark.parametrize("size", [3, 5, 11, 23])
def test_a_hull_by_its_definition(size):
    """Every point that is no corner lies to the left of every side; the lowest number comes first."""
    for points in draw_points(size, 7, size):
        hull = convex_hull(points)
        assert hull[0] == hull[-1] == min(hull)
        assert len(set(hull)) == len(hull) - 1
        for first, two in pairwise(hull):
            assert all(left_of(points, first, two, second) for second in range(size) if second not in (first, two))


@pytest.mark.parametrize("size", [3, 5, 11])
def test_triangles_by_their_definition(size):
    """No point within the circle of a triangle, as many as Euler says, and each in its order."""
    for points in draw_points(size, 7, size):
        result = triangulation(points)
        triangles = [result[start : start + 3] for start in range(0, len(result), 3)]
        assert len(triangles) == 2 * size - 2 - len(convex_hull(points)) + 1
        centers = []
        for triangle in triangles:
            assert triangle == sorted(set(triangle))
            a, b, c = points[triangle]
            center = np.linalg.solve(2 * np.array([b - a, c - a]), [b @ b - a @ a, c @ c - a @ a])
            radius = np.linalg.norm(a - center)
            remaining = np.delete(points, triangle, 0)
            assert (np.linalg.norm(remaining - center, axis=1) > radius).all()
            sides = [np.linalg.norm(b - c), np.linalg.norm(c - a), np.linalg.norm(a - b)]
            centers.append(tuple(np.average([a, b, c], axis=0, weights=sides)))
        assert centers == sorted(centers)


def test_collinear_points_have_no_hull():
    for find in (convex_hull, triangulation):
        with pytest.raises(UserError, match="the points 2 and 4 are both"):
            find(np.array([[0, 0], [1, 1], [0, 1], [1, 1.0]]))
        with pytest.raises(UserError, match="the 3 points lie on one line"):
            find(np.array([[0, 0], [1, 1], [2, 2.0]]))
        with pytest.raises(UserError, match="needs 3 points or more, but there are 2"):
            find(np.array([[0, 0], [1, 1.0]]))


def brute(distance_matrix: Any) -> float:
    size = distance_matrix.shape[1]
    tours = np.array([(0, *remaining) for remaining in permutations(range(1, size))])
    return float(tour_lengths(distance_matrix.repeat(len(tours), 0), tours).min())


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7])
def test_the_shortest_tour_matches_brute_force(size):
    distance_matrix = distances(draw_points(size, 5, size))
    for find in (shortest_tours, local_search_tours):
        tours = find(distance_matrix)
        assert (np.sort(tours, 1) == np.arange(size)).all()
        assert (tours == normalize_tours(tours)).all()
        actual = tour_lengths(distance_matrix, tours)
        expected = [brute(distance_matrix[row : row + 1]) for row in range(5)]
        assert (
            actual == pytest.approx(expected) if find is shortest_tours else (actual > np.array(expected) - 1e-9).all()
        )


def test_a_good_tour_is_hardly_longer_than_the_shortest():
    points = draw_points(3, 43, 11)
    distance_matrix = distances(points)
    assert solve("tsp", points, 11) == shortest_tours(distance_matrix).tolist()
    ratio = tour_lengths(distance_matrix, local_search_tours(distance_matrix)) / tour_lengths(
        distance_matrix, shortest_tours(distance_matrix)
    )
    assert (ratio > 1 - 1e-9).all()
    assert ratio.mean() < 1.01


def test_no_move_of_up_to_three_points_shortens_a_local_optimum():
    """Wherever the segment lies, also across the end of the array."""
    matrices = distances(draw_points(5, 211, 13))
    tours, is_shorter = np.tile(np.arange(13), (211, 1)), np.ones(211, dtype=bool)
    while is_shorter.any():
        tours, is_shorter = tsp._best_step(matrices, tours)
    assert len(np.unique(tours[:, 0])) > 1  # segments were moved across the end
    lengths = tour_lengths(matrices, tours)
    for start, length in product(range(13), (1, 2, 3)):
        turned = np.roll(tours, -start, 1)
        segment, remaining = turned[:, :length], turned[:, length:]
        for place, moved in product(range(1, 13 - length), (segment, segment[:, ::-1])):
            candidates = np.concatenate([remaining[:, :place], moved, remaining[:, place:]], 1)
            assert (tour_lengths(matrices, candidates) > lengths - 1e-8).all()


def test_a_tour_begins_with_the_lower_of_two_neighbors():
    """0 stands between 3 and 1."""
    assert normalize_tours(np.array([[2, 3, 0, 1]])).tolist() == [[0, 1, 2, 3]]
    assert normalize_tours(np.array([[2, 1, 0, 3]])).tolist() == [[0, 1, 2, 3]]


def test_answers_are_independent():
    """Tours of unlike sizes, found together or alone."""
    points = [draw_points(size, 1, size)[0].astype(np.float32) for size in (5, 13, 3, 5, 13)]
    for exact in (3, 12):
        together = solve("tsp", points, exact)
        assert together == [solve("tsp", [point], exact)[0] for point in points]


def test_numbers_in_rising_order():
    values = np.array([[0.5], [0.25], [0.75], [0.25]], dtype=np.float32)
    assert solve("sorting", [values], 0) == [[1, 3, 0, 2]]


def examples_of(problem: Any, sizes: Sequence[int], count: int, seed: Sequence[int] = (1, 0)) -> list[Any]:
    return [
        (draw_problem.points.tolist(), draw_problem.order)
        for draw_problem in draw_problems(problem, sizes, count, seed, max_exact_points=5)
    ]


@pytest.mark.parametrize("problem", ["hull", "delaunay", "tsp", "sorting"])
def test_the_seed_decides_each_example(problem):
    few, extra = examples_of(problem, [3, 7], 5), examples_of(problem, [3, 7], 8)
    assert extra[:5] == few
    assert [len(points) for points, _ in extra] == [3, 7] * 4
    assert examples_of(problem, [3, 7], 5, (2, 0)) != few
    assert examples_of(problem, [3, 7], 5, (1, 1)) != few
    assert all(0 <= number < 1 for points, _ in extra for point in points for number in point)


def test_chunks_differ():
    result = examples_of("sorting", [5], 2 * EXAMPLES_PER_CHUNK + 3)
    assert len(result) == 2 * EXAMPLES_PER_CHUNK + 3
    assert len({str(points) for points, _ in result}) == len(result)


def test_the_task_says_which_tours_may_not_be_the_shortest():
    few = {"examples": 3, "num_held_out": 2}
    task = Pointing("tsp", sizes="4-6", test=[5, 13], max_exact_points=5, **few)
    task.load()
    assert task.notes == [
        "tours of 6, 13 points (more than task.max_exact_points=5) come from a local search and may not be the shortest"
    ]
    exact = Pointing("tsp", sizes=5, **few)
    exact.load()
    assert exact.notes == []


def test_rows_to_train_on_are_the_examples_encoded():
    task = Pointing("hull", sizes=[3, 5], examples=7, num_held_out=2)
    data = task.load()
    posed = list(draw_problems("hull", [3, 5], 7, (1, 0), max_exact_points=12))
    result = data.train_dataset()
    assert len(result) == 7
    for row, item in enumerate(posed):
        assert data.target.decode(result[row].target.tolist()) == [str(place + 1) for place in item.order]
        assert data.source.decode(result[row].source) == pytest.approx(item.points, abs=1e-6)
    assert [len(pair.source) for pair in data.pairs.test] == [3, 5]


SIZES: dict[Any, list[int]] = {7: [7], (5, 11): [5, 11], "3-6": [3, 4, 5, 6]}


@pytest.mark.parametrize("sizes_option", SIZES)
def test_sizes_are_parsed(sizes_option):
    task = Pointing(sizes=list(sizes_option) if isinstance(sizes_option, tuple) else sizes_option)
    assert task.sizes == task.test_sizes == SIZES[sizes_option]


MISTAKES: dict[str, dict[str, Any]] = {
    "task.sizes=many: expected a number of points": {"sizes": "many"},
    "task.sizes=7-5: expected a number of points": {"sizes": "7-5"},
    "task.sizes=5-99999999999999999999: expected a number of points up to 999,999": {"sizes": "5-99999999999999999999"},
    "task.test=1001: more than 1000 points": {"test": 1001},
    "task.max_exact_points=17: the time and memory": {"problem": "tsp", "max_exact_points": 17},
    "problem=hull needs 3 points or more, but a size is 2": {"sizes": 2, "examples": 1},
}


@pytest.mark.parametrize("message", MISTAKES)
def test_invalid_options_are_refused(message):
    with refused(f"{message}..."):
        Pointing(**MISTAKES[message]).load()
