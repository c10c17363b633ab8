"""Analysis of variance: sums of squares by hand, and SciPy's values for one factor."""

from __future__ import annotations

import math
import runpy
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from attnx.reports.stats.anova import LACK_OF_FIT, SEEDS, Analysis, analyze
from attnx.reports.stats.multiple_comparisons import adjust_by_holm
from attnx.reports.stats.pooled_variance import within_variance

SIMULATION = Path(__file__).parents[2] / "benchmarks" / "interaction_simulation.py"


def grid(values: dict[tuple[int, ...], list[float]], *sizes: int) -> Analysis:
    """Analyze runs by the levels of their factors."""
    runs = [(levels, value) for levels, group in values.items() for value in group]
    columns = [np.array([levels[factor] for levels, _ in runs]) for factor in range(len(sizes))]
    return analyze(columns, sizes, np.array([value for _, value in runs]), within_variance(list(values.values())))


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
    assert result.error == SEEDS
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


def test_a_failed_seed_does_not_make_an_effect_of_an_interaction_of_others() -> None:
    """The first factor has no effect, the others interact; of one cell two of three runs are missing."""
    cells = {levels: [-1.0, 0.0, 1.0] for levels in product(range(2), repeat=3)} | {(0, 0, 0): [0.0]}
    result = grid({(a, b, c): [9.0 * (b == c) + x for x in values] for (a, b, c), values in cells.items()}, 2, 2, 2)
    assert result.main[0] is not None
    assert result.main[0].f == pytest.approx(0, abs=1e-9)
    assert [level.mean for level in result.levels[0]] == pytest.approx([4.5, 4.5])
    assert result.interactions[1, 2][0].p < 0.001


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


def test_a_latin_square_by_hand() -> None:
    """Nine settings of 27, each ± 1. What is left of main effects, 3 times -1, 0 or 1, is interactions: an error of 54.

    Rows are 0, 3 and 6: six runs each 3 from the mean, twice, are 108 with 2 degrees of freedom.
    """
    means = {(a, b, (a + b) % 3): 3.0 * a + 3 * ((a + 2 * b) % 3 - 1) for a, b in product(range(3), repeat=2)}
    result = grid({levels: [mean - 1, mean + 1] for levels, mean in means.items()}, 3, 3, 3)
    rows, columns, letters = result.main
    assert rows is not None
    assert columns is not None
    assert letters is not None
    assert result.error == LACK_OF_FIT
    assert (rows.f, rows.degrees, rows.error_degrees) == (pytest.approx(1), 2, 2)
    assert rows.p == pytest.approx(1 / (1 + rows.f))  # F of 2 and 2 degrees
    assert (columns.f, letters.f) == (pytest.approx(0, abs=1e-9), pytest.approx(0, abs=1e-9))
    assert rows.adjusted_p == 1
    assert result.interactions == {}  # with any of them nothing is left for an error
    first = result.levels[0][0]
    assert first.mean is not None
    assert first.high is not None
    # A mean of six runs with a variance of 54; Student's t of 2 degrees is 4.3027 from tables.
    assert first.high - first.mean == pytest.approx(4.3027 * 3, rel=1e-4)


def test_pairs_that_only_another_pair_can_replace_are_not_tested() -> None:
    """Of four factors the last is the sum of the first three, so that of two pairs nobody can say which one it is."""
    settings = [(a, b, c, (a + b + c) % 2) for a, b, c in product(range(2), repeat=3)]
    result = grid(
        {levels: [10.0 * (levels[0] == levels[1]) + seed for seed in (0, 1)] for levels in settings}, 2, 2, 2, 2
    )
    assert result.error == LACK_OF_FIT
    assert (0, 1) not in result.interactions
    assert (2, 3) not in result.interactions


@pytest.mark.parametrize("has_grid", [False, True])
def test_an_interaction_in_a_fraction_is_not_mistaken_for_others(has_grid: bool) -> None:
    """It is found more often than not, and of the others at most 5 % are below 0.05."""
    shares = runpy.run_path(str(SIMULATION))["significant_shares"](has_grid, 1, 2.0, samples=20)
    assert shares.false <= 0.05
    assert shares.power > 0.5


def test_p_values_are_adjusted_by_holm() -> None:
    """The least by all three, the next by two, the last by itself, and none below one that is less."""
    assert adjust_by_holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert adjust_by_holm([0.9, 0.8]) == [1, 1]
    assert adjust_by_holm([]) == []
