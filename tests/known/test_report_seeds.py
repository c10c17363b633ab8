"""How surely one setting is better than another: Student's t and Holm's rule, on numbers worked out on paper."""

from __future__ import annotations

import math

import pytest

from attnx.reports.seeds import APART, PAIRED, gap_over_seeds, holm, student_p, student_quantile


@pytest.mark.parametrize(
    ("t", "degrees", "p"),
    [
        (0.0, 5, 1.0),
        (1.0, 1, 1 / 2),  # Cauchy's distribution: 1 - 2/pi atan(t)
        (-math.sqrt(3), 1, 1 / 3),
        (math.sqrt(2), 2, 1 - math.sqrt(2 / 4)),  # 1 - t / sqrt(2 + t^2)
        (math.sqrt(3), 3, 1 / 2 - 1 / math.pi),  # the angle is pi/4: 1 - 2/pi (pi/4 + 1/2)
        (2.0, 4, 1 - math.sqrt(1 / 2) * 5 / 4),  # pi/4 again: sin (1 + cos^2 / 2)
        (math.sqrt(5), 5, 1 - 2 / math.pi * (math.pi / 4 + 1 / 2 + 1 / 6)),  # cos + 2/3 cos^3, times sin
    ],
)
def test_the_chance_that_t_is_so_far_from_zero(t: float, degrees: int, p: float) -> None:
    assert student_p(t, degrees) == pytest.approx(p)


def test_how_far_t_is_by_chance() -> None:
    assert student_quantile(1) == pytest.approx(math.tan(0.95 * math.pi / 2))
    assert student_quantile(2) == pytest.approx(math.sqrt(2 * 0.95**2 / (1 - 0.95**2)))
    assert student_quantile(2, 0.5) == pytest.approx(math.sqrt(2 / 3))
    assert student_quantile(1000) == pytest.approx(1.96, abs=0.005)


def test_seeds_are_paired() -> None:
    """Differences 1, 2, 3: their mean is 2, its error 1 / sqrt 3, so t^2 is 12; what else varies is no matter."""
    a, b = {1: 11.0, 2: 22.0, 3: 33.0}, {1: 10.0, 2: 20.0, 3: 30.0}
    found = gap_over_seeds(a, b)
    assert found is not None
    assert (found.difference, found.test) == (pytest.approx(2), PAIRED)
    assert found.p == pytest.approx(1 - math.sqrt(12 / 14))
    reach = math.sqrt(2 * 0.95**2 / (1 - 0.95**2)) / math.sqrt(3)
    assert (found.low, found.high) == (pytest.approx(2 - reach), pytest.approx(2 + reach))
    assert gap_over_seeds({**a, 5: 700.0}, {**b, 7: -700.0}) == found  # seeds that one of them lacks


def test_different_seeds_are_not_paired() -> None:
    """Variances 2 and 2 of two values each: the error is sqrt 2 with 2 degrees of freedom, so t^2 is 18."""
    found = gap_over_seeds({1: 1.0, 2: 3.0}, {3: 7.0, 4: 9.0})
    assert found is not None
    assert (found.difference, found.test) == (pytest.approx(-6), APART)
    assert found.p == pytest.approx(1 - math.sqrt(18 / 20))


def test_one_seed_tells_nothing() -> None:
    assert gap_over_seeds({1: 1.0}, {1: 2.0}) is None
    assert gap_over_seeds({1: 1.0, 2: 2.0}, {1: 2.0}) is None


def test_what_never_varies() -> None:
    """Of two seeds that differ by the same nobody knows how far a third would; so not even that one is better."""
    same, further = {1: 5.0, 2: 7.0}, {1: 6.0, 2: 8.0}
    assert gap_over_seeds(same, same) == (0, 0, 0, 1, PAIRED)
    assert gap_over_seeds(further, same) is None


def test_many_comparisons() -> None:
    """The least times 3; the next times 2; the last as it is, but never below those before it; none above 1."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1, 1])
    assert holm([]) == []
