"""Effects of choices on the means of settings, by hand and by SciPy."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from attnx.reports.stats.analysis_of_variance import SETTINGS, Analysis, analyze
from attnx.reports.stats.multiple_comparisons import SEEDS


def analyze_settings(settings: list[tuple[int, ...]], groups: list[list[float]]) -> Analysis:
    columns = [np.array(column) for column in zip(*settings, strict=True)]
    return analyze(columns, [int(column.max()) + 1 for column in columns], groups)


def test_one_choice_is_tested_over_seeds():
    """The one-way analysis of variance."""
    groups = [[1.0, 2.0, 4.0], [3.0, 4.0, 4.5], [9.0, 8.0, 7.0]]
    analysis = analyze_settings([(0,), (1,), (2,)], groups)
    assert analysis.error == SEEDS
    expected = stats.f_oneway(*groups)
    assert analysis.tests[0,].f == pytest.approx(expected.statistic)
    assert analysis.tests[0,].p == pytest.approx(expected.pvalue)
    means = [level.mean for level in analysis.levels[0]]
    assert means == pytest.approx([np.mean(group) for group in groups])
    difference = analysis.levels[0][2].difference
    assert difference.p == pytest.approx(stats.tukey_hsd(*groups).pvalue[2, 0], abs=0.003)


def test_a_choice_of_several_is_tested_over_settings():
    """Two scorers by three scopes, means 1 2 3 and 5 7 6: rows differ by 4, which is 16 * 6 / 4 squares.

    Rest: deviations from the sum of both effects are (0, -1/2, 1/2) and its negative, squares 1 with 2 degrees.
    """
    grid = list(product(range(2), range(3)))
    analysis = analyze_settings(grid, [[value - 0.001, value + 0.001] for value in (1.0, 2.0, 3.0, 5.0, 7.0, 6.0)])
    assert analysis.error == SETTINGS
    assert analysis.tests[0,].f == pytest.approx(24 / (1 / 2))
    assert (analysis.tests[0,].degrees, analysis.tests[0,].error_degrees) == (1, 2)
    assert [level.mean for level in analysis.levels[0]] == pytest.approx([2, 6])
    # The interaction fits the rest, so its error is what seeds vary.
    assert analysis.tests[0, 1].f == pytest.approx(1 / 2 / (0.001**2 * 2 / 1 / 2))


def test_a_missing_setting_is_estimated():
    """Local adds 2, mlp adds 5: so does the fourth, which is missing."""
    analysis = analyze_settings([(0, 0), (0, 1), (1, 0)], [[1.0], [3.0], [6.0]])
    assert [[level.mean for level in levels] for levels in analysis.levels] == [
        pytest.approx([2, 7]),
        pytest.approx([3.5, 5.5]),
    ]
    assert analysis.levels[0][0].low is None


def test_choices_that_change_together_cannot_be_separated():
    analysis = analyze_settings([(0, 0), (1, 1), (0, 0), (1, 1)], [[1.0], [2.0], [1.1], [2.2]])
    assert {level.mean for levels in analysis.levels for level in levels} == {None}
    assert not analysis.tests


def test_an_effect_that_depends_on_another_choice_is_less_sure():
    """In one scope the scorer makes a difference of 10, in the other of -9: seeds agree, settings do not."""
    grid = list(product(range(2), range(2)))
    groups = [[value - 0.1, value, value + 0.1] for value in (0.0, 10.0, 10.0, 1.0)]
    analysis = analyze_settings(grid, groups)
    assert analysis.tests[0,].p > 0.5
    assert analysis.tests[0, 1].p < 0.001


def test_tests_are_adjusted_by_holm():
    random = np.random.default_rng(0)
    grid = list(product(range(2), range(2), range(3)))
    analysis = analyze_settings(grid, random.normal(size=(12, 2)).tolist())
    main = sorted((test.p, test.adjusted_p) for term, test in analysis.tests.items() if len(term) == 1)
    assert main[0][1] == pytest.approx(min(1, 3 * main[0][0]))
