"""Analysis of variance: sums of squares by hand, and SciPy's values for one factor."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from attnx.reports.stats.anova import Analysis, analyze
from attnx.reports.stats.multiple_comparisons import pool_variance


def grid(values: dict[tuple[int, ...], list[float]], *sizes: int) -> Analysis:
    """Analyze runs by the levels of their factors."""
    runs = [(levels, value) for levels, group in values.items() for value in group]
    columns = [np.array([levels[factor] for levels, _ in runs]) for factor in range(len(sizes))]
    return analyze(columns, sizes, np.array([value for _, value in runs]), pool_variance(list(values.values())))


def test_a_full_grid_by_hand() -> None:
    """Cells 11, 13, 15, 21, each ± 1: a variance of 2 with 4 degrees of freedom.

    Rows differ by 6: eight times 3^2. Columns by 4: eight times 2^2. Cells by (11 - 13 - 15 + 21) / 4 = 1 besides.
    """
    cells = {(0, 0): 11, (0, 1): 13, (1, 0): 15, (1, 1): 21}
    result = grid({levels: [cell - 1.0, cell + 1.0] for levels, cell in cells.items()}, 2, 2)
    rows, columns = result.main
    assert rows is not None
    assert columns is not None
    assert (rows.f, rows.degrees, rows.error_degrees) == (pytest.approx(72 / 2), 1, 4)
    assert columns.f == pytest.approx(32 / 2)
    interaction, largest = result.interactions[0, 1]
    assert interaction.f == pytest.approx(8 / 2)
    # Its root is Student's t of 4 degrees: 2 or more with the chance 1 - sin a (1 + cos^2 a / 2), tan a = 1.
    assert interaction.p == pytest.approx(1 - math.sqrt(1 / 2) * 5 / 4)
    # Each cell is 1 more or less than its row and column add. Of eight values it is known to sqrt(2 / 8), times the t
    # of 4 degrees that is exceeded by 5 / 4 %, one of four cells' share: 4.3147 from tables.
    assert largest is not None
    assert abs(largest.mean) == pytest.approx(1)
    assert largest.high - largest.mean == pytest.approx(4.3147 * math.sqrt(2 / 8), rel=1e-4)
    best, worst = result.levels[0]
    assert best.difference is None
    assert worst.difference is not None
    assert worst.difference.difference == pytest.approx(6)
    assert worst.difference.p == pytest.approx(rows.p, rel=1e-4)  # two levels: one comparison


def test_one_factor_matches_scipy() -> None:
    """Groups of unequal sizes; the distances of levels are Tukey's and Kramer's."""
    random = np.random.default_rng(0)
    groups = [(mean + random.normal(size=size)).tolist() for mean, size in ((0.0, 3), (1.0, 5), (2.5, 2))]
    actual = grid({(level,): group for level, group in enumerate(groups)}, 3)
    expected = stats.f_oneway(*groups)
    assert actual.main[0] is not None
    assert (actual.main[0].f, actual.main[0].p) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))
    pairs = stats.tukey_hsd(*groups)
    best = int(np.argmin([np.mean(group) for group in groups]))
    for level, mean in enumerate(actual.levels[0]):
        assert mean.mean == pytest.approx(np.mean(groups[level]))
        if level != best:
            assert mean.difference is not None
            assert mean.difference.p == pytest.approx(pairs.pvalue[level, best], abs=1e-6)
            low = pairs.confidence_interval(0.95).low[level, best]
            assert mean.difference.low == pytest.approx(low, rel=1e-4)


def test_a_failed_cell_removes_only_its_interaction() -> None:
    """Three cells of four: the interaction is unknown; rows and columns are contrasts."""
    result = grid({(0, 0): [9.0, 11.0], (0, 1): [12.0, 14.0], (1, 0): [19.0, 21.0]}, 2, 2)
    assert result.interactions == {}
    rows, columns = result.main
    assert rows is not None
    assert columns is not None
    # Cells of two with a variance of 2: a difference of two cells has 2, so F is its square over 2, with 3 degrees.
    assert (rows.f, rows.degrees, rows.error_degrees) == (pytest.approx(10**2 / 2), 1, 3)
    assert columns.f == pytest.approx(3**2 / 2)


def test_with_one_seed_the_residual_is_the_error() -> None:
    """Rows 0 and 4, columns 0, 1 and 5, and ± 1 that fits neither: squares of 6, with 2 degrees of freedom."""
    odd = {(0, 0): 1, (0, 1): -1, (0, 2): 0, (1, 0): -1, (1, 1): 1, (1, 2): 0}
    values = {(a, b): [4.0 * a + (0, 1, 5)[b] + odd[a, b]] for a, b in product(range(2), range(3))}
    result = grid(values, 2, 3)
    rows, columns = result.main
    assert rows is not None
    assert columns is not None
    assert (rows.f, rows.error_degrees) == (pytest.approx(6 * 2**2 / (4 / 2)), 2)
    assert (columns.degrees, columns.error_degrees) == (2, 2)
    assert result.interactions == {}  # there is nothing left to tell it by


def test_nothing_is_tested_without_residual_degrees() -> None:
    result = grid({(0,): [1.0], (1,): [2.0]}, 2)
    assert result.main == [None]
    assert [level.mean for level in result.levels[0]] == pytest.approx([1, 2])
    assert [(level.low, level.difference) for level in result.levels[0]] == [(None, None), (None, None)]


def test_five_percent_of_null_factors_are_significant() -> None:
    """200 grids of 2 by 3 settings with two seeds, one cell failed: F-tests keep their level."""
    random, sure = np.random.default_rng(0), np.zeros(3)
    cells = [cell for cell in product(range(2), range(3)) if cell != (1, 2)]
    for _ in range(200):
        result = grid({cell: random.normal(size=2).tolist() for cell in cells}, 2, 3)
        tests = [*result.main, result.interactions[0, 1][0]]
        sure += [test is not None and test.p < 0.05 for test in tests]
    assert (abs(sure / 200 - 0.05) < 3.5 * math.sqrt(0.05 * 0.95 / 200)).all()
