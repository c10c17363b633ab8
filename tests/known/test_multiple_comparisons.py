"""Comparisons with the best of several means: Dunnett's tables, other implementations, and numbers by hand."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
import pytest
from scipy import stats

from attnx.reports.stats.bootstrap import percentile_interval, resample_means
from attnx.reports.stats.largest_difference import dunnett_isf, dunnett_sf, range_isf, range_sf
from attnx.reports.stats.multiple_comparisons import (
    EXAMPLES,
    MAX_SEEDS,
    POOLED,
    UNEQUAL,
    compare_draws_with_best,
    compare_with_best,
    compare_with_control,
    seeds_needed,
)
from attnx.reports.stats.pooled_variance import PooledVariance, pool_variance, within_variance


@pytest.mark.parametrize(
    ("treatments", "degrees", "expected"),
    [(1, 10, 2.23), (2, 10, 2.57), (5, 10, 2.99), (2, 6, 2.86), (3, 20, 2.54), (1, 1000, 1.96), (5, 1000, 2.51)],
)
def test_critical_values_match_dunnetts_tables(treatments: int, degrees: int, expected: float) -> None:
    """Two-sided, 5 %, groups of equal size (Dunnett 1964, table II)."""
    assert dunnett_isf(0.05, (4,) * treatments, 4, degrees) == pytest.approx(expected, abs=0.011)


def test_two_groups_give_students_test() -> None:
    for degrees in (1, 2, 5, 30):
        assert dunnett_sf(2.0, [3], 3, degrees) == pytest.approx(2 * stats.t.sf(2.0, degrees), abs=2e-5)
        assert dunnett_isf(0.05, (3,), 3, degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-3)


def test_unequal_group_sizes_match_scipy() -> None:
    """SciPy integrates by quasi Monte Carlo, to three digits."""
    random = np.random.default_rng(0)
    groups = [random.normal(size=size) + mean for size, mean in ((2, 0.0), (5, 1.5), (3, 1.0), (4, 2.5))]
    control, remaining = groups[0], groups[1:]
    expected = stats.dunnett(*remaining, control=control, rng=0)
    actual = [dunnett_sf(abs(t), [5, 3, 4], 2, 10) for t in expected.statistic]
    assert actual == pytest.approx(expected.pvalue, abs=1e-3)


def test_each_group_is_compared_with_the_best() -> None:
    """Means 1, 2 and 5, each of variance 2 with three degrees of freedom: errors of sqrt 2."""
    result = compare_with_best([[4.0, 6.0], [0.0, 2.0], [1.0, 3.0]])
    assert result[1] is None
    far, near = result[0], result[2]
    assert far is not None
    assert near is not None
    assert (far.difference, near.difference, near.test) == (pytest.approx(4), pytest.approx(1), POOLED)
    assert far.p == pytest.approx(dunnett_sf(4 / math.sqrt(2), [2, 2], 2, 3))
    assert far.high - far.difference == pytest.approx(dunnett_isf(0.05, (2, 2), 2, 3) * math.sqrt(2))
    assert (far.low > 0) == (far.p < 0.05)


def test_constant_groups_cannot_be_compared() -> None:
    assert compare_with_best([[5.0, 5.0], [6.0, 6.0], [5.0, 5.0]]) == [None, None, (0, 0, 0, 1, POOLED)]
    assert compare_with_best([[5.0], [6.0]]) == [None, None]


def test_equal_values_have_no_variance() -> None:
    """The mean of three equal values may be rounded, and so may differ from them."""
    values = [100 * errors / 36 for errors in range(1, 37)]
    assert any(np.var([value] * 3) > 0 for value in values)
    groups = [[value] * 3 for value in values]
    assert pool_variance(groups) == (0.0, 72, None, frozenset())
    assert compare_with_best(groups) == [None] * 36
    assert pool_variance([[0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 3.0, 3.0]]).levene_p is None


def test_unequal_variances_match_scipy() -> None:
    """Games and Howell's test of all pairs."""
    random = np.random.default_rng(0)
    moments = ((0.0, 0.1), (0.3, 0.1), (1.0, 0.1), (2.0, 1.0), (3.0, 1.0), (4.0, 1.0))
    groups = [(mean + sd * random.normal(size=6)).tolist() for mean, sd in moments]
    assert not pool_variance(groups).outlying
    assert not pool_variance(groups).is_homogeneous
    assert pool_variance(groups).levene_p == pytest.approx(stats.levene(*groups).pvalue)
    assert pool_variance([*groups, [3.0, 5.0]]).levene_p == pytest.approx(stats.levene(*groups).pvalue)
    expected = stats.tukey_hsd(*groups, equal_var=False)
    interval = expected.confidence_interval(0.95)
    for place, actual in enumerate(compare_with_best(groups)[1:], start=1):
        assert actual is not None
        assert actual.test == UNEQUAL
        assert actual.p == pytest.approx(expected.pvalue[place, 0], abs=1e-4)
        assert (actual.low, actual.high) == pytest.approx((interval.low[place, 0], interval.high[place, 0]), rel=1e-4)


def test_one_wild_group_does_not_hide_the_rest() -> None:
    """Means 0.5, 2.5, 4.5 of variance 0.5, and 0 to 100 of variance 5000: its errors are sqrt(5000 / 2 + 0.5 / 2)."""
    groups = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [0.0, 100.0], [6.0, 7.0], [8.0, 9.0]]
    pooled = pool_variance(groups)
    assert pooled == (pytest.approx(0.5), 5, None, {3})
    assert within_variance(groups).variance == pytest.approx((5 * 0.5 + 5000) / 6)
    alone, wild = compare_with_control(groups)[0], compare_with_control(groups)[2]
    assert alone is not None
    assert wild is not None
    assert (alone.difference, alone.test) == (pytest.approx(2), POOLED)
    assert alone.p == pytest.approx(dunnett_sf(2 / math.sqrt(0.5), [2] * 5, 2, 5))
    error, degrees = math.sqrt(2500.25), 2500.25**2 / (2500**2 / 1 + 0.25**2 / 5)
    assert wild.test == UNEQUAL
    assert wild.p == pytest.approx(dunnett_sf(49.5 / error, [2] * 5, 2, degrees))
    assert wild.high - wild.difference == pytest.approx(dunnett_isf(0.05, (2,) * 5, 2, degrees) * error)


@pytest.mark.parametrize("extreme", [1e3, 1e6, 1e12])
def test_an_extreme_group_is_outlying(extreme: float) -> None:
    """However extreme: the variance of the others is not lost beside its own."""
    assert pool_variance([[5.0, 5.1], [5.3, 5.2], [5.5, 5.6], [5.0, extreme]]).outlying == {3}


def test_equal_groups_are_seldom_outlying() -> None:
    """Of normal groups of equal variance one is left out in a share of 0.001 of all designs; of 1,000, in few."""
    random = np.random.default_rng(1)
    for seeds in (2, 3):
        assert sum(bool(pool_variance(random.normal(size=(25, seeds)).tolist()).outlying) for _ in range(1000)) <= 5


def test_two_values_cannot_show_unequal_variances() -> None:
    """Both are as far from their median, so Levene's test would always find a difference."""
    assert pool_variance([[0.0, 1.0], [0.0, 100.0]]).levene_p is None
    assert pool_variance([[0.0, 1.0], [0.0, 100.0]]).is_homogeneous


def test_the_bootstrap_of_the_largest_difference() -> None:
    """Independent normal draws of variance 1: three models' differences are Dunnett's with a known variance."""
    draws = np.random.default_rng(0).normal(size=(40000, 3))
    best, near, far = compare_draws_with_best([0.0, 2.0, 6.0], draws + np.array([0.0, 2.0, 6.0]))
    assert best is None
    assert near is not None
    assert far is not None
    assert near.test == EXAMPLES
    assert near.p == pytest.approx(dunnett_sf(2 / math.sqrt(2), [1, 1], 1, 10**6), abs=0.01)
    assert near.high - 2 == pytest.approx(2.21 * math.sqrt(2), rel=0.01)
    assert far.p < 0.001


def test_models_with_equal_errors_do_not_differ() -> None:
    draws = np.random.default_rng(0).normal(size=(1000, 1)).repeat(2, axis=1)
    assert compare_draws_with_best([1.0, 1.0], draws) == [None, (0, 0, 0, 1, EXAMPLES)]


def test_seeds_and_examples_are_two_sources_of_variance() -> None:
    """Examples: a variance of 9 of each group. Seeds: 4, of two; so a mean has 9 + 4 / 2, a difference 22."""
    random = np.random.default_rng(0)
    values = random.normal(0, 2, (400, 2))
    values = (values - values.mean(axis=1, keepdims=True)) * 2 / math.sqrt(pool_variance(values.tolist()).variance)
    draws = [random.normal(0, 3, (4000, 1)) + group for group in values]
    means = resample_means(draws[:2], values.tolist(), pool_variance(values.tolist()))
    assert np.var(means, axis=0) == pytest.approx([11, 11], rel=0.1)
    low, high = percentile_interval(means[:, 0] - means[:, 1])
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(22), rel=0.05)


def test_a_setting_that_sometimes_fails_does_not_widen_the_intervals_of_others() -> None:
    groups = [[9.9, 10.0, 10.1], [10.9, 11.0, 11.1], [11.9, 12.0, 12.1]]
    draws = [np.full((1000, 3), fmean(group)) for group in [*groups, [15.0, 60.0, 14.0]]]
    widths = []
    for values in (groups, [*groups, [15.0, 60.0, 14.0]]):
        means = resample_means(draws[: len(values)], values, pool_variance(values))
        low, high = percentile_interval(means[:, 1] - means[:, 0])
        widths.append(high - low)
    assert widths[1] == pytest.approx(widths[0], rel=0.1)
    assert np.ptp(means[:, 3]) > 10


@pytest.mark.parametrize(("gap", "settings"), [(1.0, 2), (2.0, 2), (0.7, 2)])
def test_the_number_of_seeds_follows_from_the_noncentral_t(gap: float, settings: int) -> None:
    def power(seeds: int) -> float:
        degrees, center = 2 * (seeds - 1), gap / math.sqrt(2 / seeds)
        return float(stats.nct.sf(stats.t.ppf(0.975, degrees), degrees, center))

    likely = seeds_needed(gap, PooledVariance(1.0, 1000, None), settings).likely
    assert likely is not None
    assert power(likely + 1) >= 0.8
    assert power(likely - 1) < 0.8


def test_the_number_of_seeds_is_as_uncertain_as_the_spread() -> None:
    """With 6 degrees of freedom a variance of 1 may be one from 0.415 to 4.85 (chi-square: 14.45 and 1.237)."""
    few, many = seeds_needed(2.0, PooledVariance(1.0, 6, None), 6), seeds_needed(2.0, PooledVariance(1.0, 600, None), 6)
    assert few.likely == many.likely
    edges = [seeds_needed(2.0, PooledVariance(variance, 6, None), 6).likely for variance in (0.4152, 4.849)]
    assert [few.low, few.high] == edges
    assert many.low is not None
    assert many.high is not None
    assert few.low is not None
    assert few.high is not None
    assert few.low < many.low <= many.high < few.high
    assert seeds_needed(0.01, PooledVariance(1.0, 6, None), 6) == (None, None, None)
    assert seeds_needed(0.5, PooledVariance(1.0, 1, None), 2).high is None
    assert MAX_SEEDS == 100


@pytest.mark.parametrize("groups", [2, 6, 100])
@pytest.mark.parametrize("degrees", [2.5, 9.0, 200.0])
def test_the_studentized_range_matches_scipy(groups: int, degrees: float) -> None:
    """Which takes a second for a quantile."""
    for q in (1.0, 3.5, 7.0):
        assert range_sf(q, groups, degrees) == pytest.approx(stats.studentized_range.sf(q, groups, degrees), abs=5e-4)
    q = range_isf(0.05, groups, degrees)
    assert stats.studentized_range.sf(q, groups, degrees) == pytest.approx(0.05, abs=5e-4)


def test_a_setting_with_one_seed_has_the_variance_of_the_others() -> None:
    """However these differ: it has none of its own."""
    groups = [[10, 10.1, 9.9, 10.05, 9.95], [12, 15, 9.5, 17, 11], [30.0]]
    assert pool_variance(groups).levene_p is None
    assert not pool_variance(groups[:2]).is_homogeneous
    for differences in (compare_with_best(groups)[1:], compare_with_control(groups)):
        assert [difference and difference.test for difference in differences] == [POOLED, POOLED]
