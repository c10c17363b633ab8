"""Comparisons of several means, and effects of choices on them, by hand and by SciPy."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from attnx.reports.stats.analysis_of_variance import SETTINGS, UNKNOWN, Analysis, analyze
from attnx.reports.stats.multiple_comparisons import (
    EXAMPLES,
    SEEDS,
    compare_draws_with_best,
    compare_with_best,
    compare_with_control,
    moderate_variances,
)


def groups_of(means: tuple[float, ...], deviations: tuple[float, ...], count: int) -> list[list[float]]:
    """Groups with exactly these means and standard deviations."""
    shape = np.random.default_rng(0).normal(size=count)
    shape = (shape - shape.mean()) / shape.std(ddof=1)
    return [
        (mean + deviation * np.roll(shape, i)).tolist()
        for i, (mean, deviation) in enumerate(zip(means, deviations, strict=True))
    ]


def test_equal_variances_are_pooled():
    """Each variance is 2 with one degree of freedom; together they have three."""
    variances, degrees = moderate_variances([[0.0, 2.0], [1.0, 3.0], [4.0, 6.0]])
    assert variances == pytest.approx([2, 2, 2])
    assert degrees == pytest.approx([3, 3, 3])


def test_the_prior_is_that_of_smyth():
    """Two log variances, of two degrees of freedom each, whose variance is trigamma(1) + trigamma(2).

    So the prior has four degrees of freedom, of which half count, and the variance exp(digamma(2) - digamma(1)) / 2.
    """
    gap = math.sqrt(2 * (math.pi**2 / 6 + math.pi**2 / 6 - 1))
    small, large = math.exp(-gap / 2), math.exp(gap / 2)
    variances, degrees = moderate_variances(groups_of((0, 0), (math.sqrt(small), math.sqrt(large)), 3))
    assert variances == pytest.approx([(2 * math.e / 2 + 2 * variance) / 4 for variance in (small, large)])
    assert degrees == pytest.approx([4, 4])


def test_a_constant_group_has_no_variance():
    variances, degrees = moderate_variances([[5.0, 5.0, 5.0], [1.0, 3.0, 5.0]])
    assert variances == pytest.approx([0, 4])
    assert degrees.min() >= 1
    assert not moderate_variances([[5.0, 5.0], [6.0, 6.0]]).degrees.any()
    assert moderate_variances([[5.0, 5.0, 5.0], [1.0, 3.0, 5.0]], [0.2, 0.3]).variances == pytest.approx([0.2, 4])
    assert moderate_variances([[5.0, 5.0], [6.0, 6.0]], [0.2, 0.3]).degrees == pytest.approx([1, 1])


def test_equal_values_have_no_variance():
    """The mean of three equal values may be rounded, and so may differ from them."""
    values = [100 * errors / 36 for errors in range(1, 37)]
    assert any(np.var([value] * 3) > 0 for value in values)
    assert not moderate_variances([[value] * 3 for value in values]).degrees.any()


@pytest.mark.parametrize("gap", [0.8, 1.2, 2.0])
def test_two_groups_give_students_test(gap):
    """Two-sided; one-sided where the first is named the best, as it is with a two-sided p below 0.05."""
    groups = groups_of((0.0, gap), (1.0, 1.0), 5)
    result = compare_with_best(groups)
    second, p = result.differences[1], float(stats.ttest_ind(*groups).pvalue)
    assert result.is_sole_best == (p < 0.05)
    assert second.p == pytest.approx(p / 2 if result.is_sole_best else p, abs=0.02)
    quantile = stats.t.ppf(0.95 if result.is_sole_best else 0.975, 8)
    assert second.high - gap == pytest.approx(quantile * math.sqrt(2 / 5), rel=0.05)
    assert second.test == SEEDS


def test_many_values_give_the_normal_range():
    """With 500 values the variance is known: the largest of 15 differences is that of six normal numbers."""
    groups = groups_of((0.0, *[0.05] * 5), (1.0,) * 6, 500)
    result = compare_with_best(groups).differences
    half = stats.studentized_range.ppf(0.95, 6, 10**6) / math.sqrt(2) * math.sqrt(2 / 500)
    assert [gap.high - 0.05 for gap in result[1:]] == pytest.approx([half] * 5, rel=0.03)


def test_differences_from_a_control_are_dunnetts():
    """Of two, two-sided, 5 %, with a known variance: 2.21 (Dunnett 1964, table II)."""
    groups = groups_of((0.0, 1.0, -1.0), (1.0,) * 3, 400)
    first, second = compare_with_control(groups)
    assert (first.difference, second.difference) == (pytest.approx(1), pytest.approx(-1))
    assert first.high - 1 == pytest.approx(2.21 * math.sqrt(2 / 400), rel=0.03)
    assert compare_with_control([groups[0], [0.0], *groups[1:], [5.0]]) == [None, first, second, None]
    assert compare_with_control([[0.0], *groups]) == [None] * 3
    counts = [[0.0] * 3, [1.0] * 3, [0.0, 3.0, 6.0]]
    assert [compare_with_control(counts, least)[0].p < 0.05 for least in (0.0, 1.0)] == [True, False]


def test_the_best_of_several_is_named():
    result = compare_with_best(groups_of((9.0, 1.0, 8.0), (1.0, 1.0, 1.0), 5))
    assert result.is_sole_best
    assert result.differences[1] is None
    assert all(result.differences[index].p < 0.05 for index in (0, 2))
    assert not compare_with_best(groups_of((1.5, 1.0, 8.0), (1.0, 1.0, 1.0), 5)).is_sole_best


@pytest.mark.parametrize(("lead", "is_sole_best"), [(2.15, False), (2.6, True)])
def test_the_best_of_eight_leads_by_more_than_the_best_of_two(lead, is_sole_best):
    """By 2.34 standard errors as Dunnett's table has it for seven differences, where one alone needs 1.96."""
    groups = groups_of((0.0, *[lead * math.sqrt(2 / 101)] * 7), (1.0,) * 8, 101)
    assert compare_with_best(groups).is_sole_best == is_sole_best


def test_a_noisy_best_is_not_named_by_the_others_calm():
    """Its lead of 1.2 is many standard deviations of the others; by its own seeds alone it is less than sure."""
    calm = groups_of((1.2,) * 7, (0.05,) * 7, 3)
    result = compare_with_best([[-1.5, 0.0, 1.5], *calm])
    assert not result.is_sole_best


def test_the_best_is_better_than_each_by_their_own_seeds():
    """Also than one far behind, whose variance the calm others hide."""
    groups = groups_of((0.0, 2.9, *[30.0] * 8, 5.0), (*[1.0] * 10, 4.0), 3)
    assert stats.ttest_ind(groups[0], groups[-1], equal_var=False, alternative="less").pvalue > 0.05
    result = compare_with_best(groups)
    assert not result.is_sole_best
    assert all(gap.p < 0.05 for gap in result.differences[1:])


def test_groups_far_behind_do_not_hide_differences_in_front():
    """Beside groups that vary a thousand times as much the first two differ by ten of their standard deviations."""
    front = groups_of((1.0, 2.0), (0.1, 0.1), 3)
    far = groups_of((800.0, 900.0, 1000.0), (100.0, 20.0, 300.0), 3)
    result = compare_with_best([*front, *far])
    assert result.is_sole_best
    assert result.differences[1].high < 2
    assert all(gap.p < 0.05 for gap in result.differences[2:])


def test_a_varying_group_does_not_make_constant_ones_vary():
    result = compare_with_best([[5.0, 5.0, 5.0], [6.0, 6.0, 6.0], [4.0, 7.0, 10.0]])
    assert result.errors[:2].tolist() == [0, 0]
    assert result.differences[1][:3] == (1, 1, 1)
    assert result.differences[2].p > 0.05


@pytest.mark.parametrize("extreme", [1e3, 1e12, 1e150])
def test_extreme_values_are_compared(extreme):
    result = compare_with_best([[5.0, 5.1], [5.3, 5.2], [5.5, 5.6], [5.0, extreme]])
    assert all(math.isfinite(number) for gap in result.differences if gap for number in gap[:4])


def test_the_bootstrap_of_the_largest_difference():
    """Independent normal draws of variance 1: three models differ by the range of three normal numbers."""
    draws = np.random.default_rng(0).normal(size=(40000, 3))
    best, near, far = compare_draws_with_best([0.0, 2.0, 60.0], draws + np.array([0.0, 2.0, 60.0]))
    assert best is None
    assert near.test == EXAMPLES
    assert near.p == pytest.approx(stats.studentized_range.sf(2, 3, 10**6), abs=0.01)
    assert near.high - 2 == pytest.approx(3.314, rel=0.01)  # the 95 % quantile of the range (Harter 1960)
    assert far.p == 1 / 40001
    alike = draws[:, [0, 0, 1]] + [0.0, 0.1, 0.0] * draws[:, 2:]  # the second with an error of 0.1 beside the first
    assert compare_draws_with_best([0.0, 0.6, 60.0], alike)[1].p < 0.001


def test_models_with_equal_errors_do_not_differ():
    draws = np.random.default_rng(0).normal(size=(1000, 1)).repeat(2, axis=1)
    assert compare_draws_with_best([1.0, 1.0], draws) == [None, (0, 0, 0, 1, EXAMPLES)]


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
    half = stats.t.ppf(0.975, 6) * math.sqrt(np.mean([np.var(group, ddof=1) for group in groups]) / 3)
    assert (analysis.levels[0][0].low, analysis.levels[0][0].high) == pytest.approx((means[0] - half, means[0] + half))
    for level, tolerance in ((1, 0.02), (2, 0.003)):
        difference = analysis.levels[0][level].difference
        assert difference.p == pytest.approx(stats.tukey_hsd(*groups).pvalue[level, 0], abs=tolerance)


def test_one_choice_of_two_has_students_test():
    """Of two and three seeds: 4 over sqrt(10/3 (1/2 + 1/3)) is 2.4; with one seed the error is unknown."""
    groups = [[1.0, 3.0], [4.0, 6.0, 8.0]]
    test = analyze_settings([(0,), (1,)], groups).tests[0,]
    assert (test.f, test.p) == pytest.approx((2.4**2, stats.ttest_ind(*groups).pvalue))
    analysis = analyze_settings([(0,), (1,)], [groups[0], [6.0]])
    assert (analysis.tests, analysis.error) == ({}, UNKNOWN)


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
    """Local adds 2, mlp adds 5: so does the fourth, which is missing; where it is there and fits, nothing is tested."""
    analysis = analyze_settings([(0, 0), (0, 1), (1, 0)], [[1.0], [3.0], [6.0]])
    assert [[level.mean for level in levels] for levels in analysis.levels] == [
        pytest.approx([2, 7]),
        pytest.approx([3.5, 5.5]),
    ]
    assert analysis.levels[0][0].low is None
    exact = analyze_settings(list(product(range(2), range(2))), [[0.1], [0.3], [0.6], [0.8]])
    assert (exact.tests, exact.error) == ({}, UNKNOWN)


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
