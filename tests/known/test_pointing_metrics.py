"""Measures of pointing by hand: polygons, triangles, tours and orders, in total and by size."""

import math
import pickle

import numpy as np
import pytest
from torchmetrics import Metric

from attnx.problems.pointing.answers import PointingReference, canonical_polygon, is_simple_polygon, polygon_area
from attnx.registry import build

# A rectangle of 4 by 3, with its middle.
POINTS = np.array([[0, 0], [4, 0], [4, 3], [0, 3], [2, 1.5]])
HULL = PointingReference(POINTS, [0, 1, 2, 3, 0])
TRIANGLES = PointingReference(POINTS, [0, 1, 4, 0, 3, 4, 1, 2, 4, 2, 3, 4])
# 4 + 3 + 4, then to the middle and back, 2.5 each.
TOUR = PointingReference(POINTS, [0, 1, 2, 3, 4])
SORTED = PointingReference(np.zeros((3, 1)), [2, 0, 1])

CASES: list[tuple[str, dict[str, str], PointingReference, list[list[int]], float]] = [
    # Right: as it is, from elsewhere, the other way, without the way back. Wrong: a corner less, one twice, nothing.
    (
        "answer_accuracy",
        {"form": "polygon"},
        HULL,
        [[0, 1, 2, 3, 0], [2, 3, 0, 1, 2], [0, 3, 2, 1, 0], [0, 1, 2, 3], [0, 1, 2, 0], [0, 1, 1, 2, 3, 0], []],
        400 / 7,
    ),
    # No polygons: two corners, crossing, one position twice, none of the points.
    (
        "well_formed",
        {"form": "polygon"},
        HULL,
        [[0, 1, 2, 0], [0, 1, 4, 3], [0, 1, 0], [0, 2, 1, 3, 0], [0, 1, 2, 1, 0], [0, 1, 7, 0]],
        200 / 6,
    ),
    # Half of the rectangle, a quarter, and one that crosses itself and is left out.
    ("area_coverage", {}, HULL, [[0, 1, 2, 0], [0, 1, 4, 0], [0, 2, 1, 3, 0]], (50 + 25) / 2),
    # The set in another order, also within a triangle; one missing; one twice; one position left over.
    (
        "answer_accuracy",
        {"form": "triangles"},
        TRIANGLES,
        [[4, 2, 3, 4, 1, 2, 3, 0, 4, 1, 0, 4], TRIANGLES.order[3:], [*TRIANGLES.order, 2, 3, 4], [*TRIANGLES.order, 0]],
        25,
    ),
    ("well_formed", {"form": "triangles"}, TRIANGLES, [[0, 1, 2], [0, 1, 1], [0, 1, 2, 3], [0, 1, 9], []], 20),
    # Three of four; one of four, with one that is none; none.
    ("triangle_coverage", {}, TRIANGLES, [TRIANGLES.order[:9], [0, 1, 2, 2, 3, 4], []], 100 * 4 / 12),
    ("answer_accuracy", {"form": "round_trip"}, TOUR, [[0, 4, 3, 2, 1], [0, 1, 2, 4, 3]], 50),
    ("well_formed", {"form": "round_trip"}, TOUR, [[2, 4, 0, 1, 3], [0, 1, 2, 3, 4, 0], [0, 1, 2, 3], [0] * 5], 50),
    # 16, and 0-2-1-3-4: 5 + 3 + 5 + 2.5 + 2.5 = 18; one that leaves out a point does not count.
    ("tour_length", {}, TOUR, [[0, 1, 2, 3, 4], [0, 2, 1, 3, 4], [0, 1, 2, 3]], (16 + 18) / 2),
    ("tour_ratio", {}, TOUR, [[0, 1, 2, 3, 4], [0, 2, 1, 3, 4], [0, 1, 2, 3]], (16 + 18) / 32),
    ("answer_accuracy", {"form": "order"}, SORTED, [[2, 0, 1], [2, 1, 0], [2, 0]], 100 / 3),
    ("well_formed", {"form": "order"}, SORTED, [[0, 1, 2], [2, 1, 0], [2, 0], [0, 0, 1], [0, 1, 2, -1]], 40),
]
every_case = pytest.mark.parametrize(
    ("name", "options", "answer", "written", "expected"),
    CASES,
    ids=["-".join([case[0], *case[1].values()]) for case in CASES],
)


def value(metric: Metric) -> float:
    return float(metric.compute()[""])


@every_case
def test_by_hand(name, options, answer, written, expected):
    metric = build("metric", (name, options))
    metric.update(written, [answer] * len(written))
    assert value(metric) == pytest.approx(expected)


@every_case
def test_two_processes_give_the_same_score(name, options, answer, written, expected):
    """Sums are merged; a copy has counted the same, and one that is reset nothing."""
    first, two = build("metric", (name, options)), build("metric", (name, options))
    first.update(written[:1], [answer])
    two.update(written[1:], [answer] * (len(written) - 1))
    first.merge_state(two)
    assert value(pickle.loads(pickle.dumps(first))) == pytest.approx(expected)
    first.reset()
    first.update([], [])
    assert math.isnan(value(first))


def test_scores_are_reported_by_size():
    """Of five points half is right, of three a third; of all two fifths. Absent sizes are not reported."""
    metric = build("metric", "answer_accuracy")
    five = PointingReference(POINTS, [0, 1, 2, 3, 4])
    metric.update([[0, 1, 2, 3, 4], [4], [2, 0, 1], [], [1]], [five, five, SORTED, SORTED, SORTED])
    assert {name: float(value) for name, value in metric.compute().items()} == pytest.approx(
        {"": 40, "3": 100 / 3, "5": 50}
    )


def test_many_sizes_are_grouped():
    """More than twelve of them."""
    for count, entries in ((12, 1 + 12), (13, 1)):
        metric = build("metric", "answer_accuracy")
        answers = [PointingReference(np.zeros((size, 1)), list(range(size))) for size in range(1, count + 1)]
        metric.update([[0]] * count, answers)
        assert value(metric) == pytest.approx(100 / count)
        assert len(metric.compute()) == entries


def test_lists_of_different_length_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        build("metric", "area_coverage").update([[0, 1, 2]], [])


def test_a_polygon_may_not_touch_itself():
    """A corner on another side; neighbors that lie on one line do no harm."""
    points = np.array([[0, 0], [4, 0], [4, 4], [2, 0], [0, 4], [2, 4]])
    assert not is_simple_polygon(points, [0, 1, 2, 3, 4])
    assert is_simple_polygon(points, [0, 3, 1, 2, 4])
    assert polygon_area(points, [0, 3, 1, 2, 4]) == 16
    assert canonical_polygon([]) == ()


def test_edges_on_one_line_need_not_meet():
    """A U, whose upper ends are on a line; and one whose ends overlap there."""
    points = np.array([[0, 0], [5, 0], [5, 4], [4, 4], [4, 1], [1, 1], [1, 4], [0, 4]])
    assert is_simple_polygon(points, range(8))
    line = np.array([[0, 0], [4, 0], [2, 0], [6, 0], [3, 3]])
    assert not is_simple_polygon(line, range(5))
