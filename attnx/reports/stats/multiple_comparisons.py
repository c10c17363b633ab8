"""Differences of several means from the best one, or from a control, that hold however many there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

Numbers = NDArray[np.float64]
Groups = Sequence[Sequence[float]]

PRIOR_SHARE = 0.5
"""The share of the prior's estimated degrees of freedom that counts: of few groups it is often overestimated."""
MAX_PRIOR_DEGREES = 1e4


class ModeratedVariances(NamedTuple):
    """The variance of each group (groups,), and its degrees of freedom (groups,).

    A group whose values are all equal has the least variance: the noise of other groups is not its own. If no group
    varies, and none has such a least variance, both are 0 for all.
    """

    variances: Numbers
    degrees: Numbers


def moderate_variances(groups: Groups, least: ArrayLike = 0.0) -> ModeratedVariances:
    """Shrink the variance of each group towards the variance of all groups, the more the more alike they are.

    The variances s_i^2 with d_i degrees of freedom are taken for draws around a prior variance s_0^2 with d_0 degrees
    of freedom, both estimated from the logarithms of the variances; half of d_0 counts. The moderated variance is
    ``(d_0 / 2 s_0^2 + d_i s_i^2) / (d_0 / 2 + d_i)``, with as many degrees of freedom as the denominator says, but no
    more than all groups have. Groups have two values or more; equal ones that were counted still vary by less than what
    is counted, which gives their ``least`` variance.

    Source: Smyth 2004, equations 3, 4 and section 6.2, https://doi.org/10.2202/1544-6115.1027
    """
    degrees = np.array([len(group) - 1 for group in groups], dtype=np.float64)
    squares = np.array([sum_of_squares(group) for group in groups])
    variances = squares / degrees
    varies, least = squares > 0, np.broadcast_to(np.asarray(least, dtype=np.float64), len(groups))
    if not varies.any():
        return ModeratedVariances(least, np.where(least > 0, degrees, 0.0))
    total = float(degrees[varies].sum())
    prior, prior_degrees = _fit_prior(variances[varies], degrees[varies])
    weight = min(PRIOR_SHARE * prior_degrees, total)
    if prior_degrees >= MAX_PRIOR_DEGREES:  # the variances are as equal as chance makes equal ones
        prior = float(squares[varies].sum()) / total
    moderated = np.where(varies, (weight * prior + squares) / (weight + degrees), least)
    return ModeratedVariances(moderated, np.minimum(weight + degrees, total))


def sum_of_squares(values: Sequence[float]) -> float:
    """About the mean; exactly 0 if the values are equal, whose mean may be rounded."""
    shifted = np.subtract(values, values[0])
    return float(np.square(shifted - shifted.mean()).sum())


def _fit_prior(variances: Numbers, degrees: Numbers) -> tuple[float, float]:
    """The prior's variance and degrees of freedom, by the mean and the variance of log variances."""
    if len(variances) < 2:
        return float(variances.mean()), 0.0
    centered = np.log(variances) - digamma(degrees / 2) + np.log(degrees / 2)
    excess = float(centered.var(ddof=1) - polygamma(1, degrees / 2).mean())
    # trigamma falls from infinity to 0, so there is one solution.
    low, high = 1e-3, MAX_PRIOR_DEGREES / 2
    if excess <= polygamma(1, high):
        return math.exp(centered.mean()), MAX_PRIOR_DEGREES
    half = low if excess >= polygamma(1, low) else brentq(lambda x: polygamma(1, x) - excess, low, high)
    return math.exp(centered.mean() + digamma(half) - math.log(half)), 2 * float(half)


SIGNIFICANCE_LEVEL: Final = 0.05
SEEDS: Final = "seeds"
EXAMPLES: Final = "examples"
MAX_DRAWS, MIN_DRAWS, MAX_NUMBERS = 10_000, 1_000, 2**23  # of the errors of all means; numbers in one table of these


class MeanDifference(NamedTuple):
    """The difference of two means, its 95 % interval, a two-sided p-value, and what it is tested over."""

    difference: float
    low: float
    high: float
    p: float
    test: str


class Comparisons(NamedTuple):
    """Differences from the best."""

    differences: list[MeanDifference | None]  #: of each group; None for the best
    errors: Numbers  #: (groups,) the standard error of each mean
    degrees: Numbers  #: (groups,) its degrees of freedom
    is_sole_best: bool  #: whether the best is better than each other group


def compare_with_best(groups: Groups, may_win: bool = True, least: ArrayLike = 0.0) -> Comparisons:
    """The difference of each group's mean from the least one, the best.

    The best was chosen by the same numbers, so a difference must exceed the largest one of *all* pairs by chance. Its
    distribution is simulated: the error of each mean is normal over the square root of a chi-square, with the group's
    own moderated variance and degrees of freedom (:func:`moderate_variances`). Groups that are worse are then left out,
    and the others compared again, until none is worse: groups far behind, whose variances are often larger, too, say
    nothing about those in front (step-down, Romano and Wolf 2005, https://doi.org/10.1198/016214504000000539).

    That the best is better than all others is one statement, and needs less (``_is_sole_best``), but where variances
    were moderated too far also Welch's test of the best and each other one, one-sided. Where it holds, and the best
    ``may_win``, the differences allow for the largest one from the best alone, and are one-sided.

    Groups must have two values, and some must vary; those whose values are equal have a ``least`` variance.
    """
    means, least = [fmean(group) for group in groups], np.broadcast_to(np.asarray(least), len(groups))
    best = means.index(min(means))
    may_win = may_win and all(_is_behind(group, groups[best]) for i, group in enumerate(groups) if i != best)
    result = Comparisons([None] * len(groups), np.zeros(len(groups)), np.zeros(len(groups)), False)
    active = [best, *(i for i in range(len(groups)) if i != best)]
    while True:
        errors, degrees, draws = _simulate_errors([groups[i] for i in active], least[active])
        result.errors[active], result.degrees[active] = errors, degrees
        pair_errors = np.hypot.outer(errors, errors)
        largest = largest_of_all_pairs(draws, pair_errors)
        gaps, leads = [means[i] - means[best] for i in active], _standardize(draws - draws[:, :1], pair_errors[0])
        if is_sole_best := may_win and _is_sole_best([groups[i] for i in active], pair_errors[0], leads):
            largest = leads.max(axis=1)
        for i, gap, error in zip(active[1:], gaps[1:], pair_errors[0, 1:], strict=True):
            result.differences[i] = difference_by_chance(gap, error, largest)
        undecided = [i for i in active if (difference := result.differences[i]) and difference.p >= SIGNIFICANCE_LEVEL]
        if is_sole_best or len(undecided) == len(active) - 1 or not undecided:
            return result._replace(is_sole_best=is_sole_best)
        active = [best, *undecided]


def _is_sole_best(groups: Groups, errors: Numbers, by_chance: Numbers) -> bool:
    """Whether the first group is better than each other one.

    Its lead over each must exceed the largest lead over the first by chance, one-sided (Hsu 1981,
    https://doi.org/10.1214/aos/1176345641), and what the lead of that pair alone is by chance, two-sided, since either
    of two equal groups may come first (Gutmann and Maymin 1987, https://doi.org/10.1214/aos/1176350378).

    Args:
        groups: the first has the least mean.
        errors: (groups,) the standard error of the difference from the first; the first one does not count.
        by_chance: (draws, groups) leads in standard errors.
    """
    leads = [_lead(fmean(group) - fmean(groups[0]), error) for group, error in zip(groups[1:], errors[1:], strict=True)]
    critical_lead = np.quantile(by_chance.max(axis=1), 1 - SIGNIFICANCE_LEVEL)
    if any(lead <= critical_lead for lead in leads):
        return False
    critical = np.quantile(np.abs(by_chance), 1 - SIGNIFICANCE_LEVEL, axis=0)
    return all(lead > alone for lead, alone in zip(leads, critical[1:], strict=True))


def compare_with_control(groups: Groups, least: ArrayLike = 0.0) -> list[MeanDifference | None]:
    """The difference of each further group's mean from the first's, the control; None if no test is possible.

    As :func:`compare_with_best`, with the largest difference from the control, which was chosen beforehand. One value
    says nothing about others: a group of one is not compared.
    """
    differences: list[MeanDifference | None] = [None] * len(groups)
    compared = [place for place, group in enumerate(groups) if len(group) > 1]
    variances = np.broadcast_to(np.asarray(least), len(groups))[compared]
    errors, degrees, draws = _simulate_errors([groups[place] for place in compared], variances)
    if compared[:1] == [0] and degrees.any():
        pair_errors = np.hypot(errors[1:], errors[0])
        largest = np.abs(_standardize(draws[:, 1:] - draws[:, :1], pair_errors)).max(axis=1, initial=0.0)
        for place, error in zip(compared[1:], pair_errors, strict=True):
            gap = fmean(groups[place]) - fmean(groups[0])
            differences[place] = difference_by_chance(gap, float(error), largest)
    return differences[1:]


def compare_draws_with_best(values: Sequence[float], draws: Numbers) -> list[MeanDifference | None]:
    """The difference of each model from the best on one test, by the bootstrap over its examples.

    As :func:`compare_with_best`, with the bootstrap's distribution of the largest standardized difference of all pairs
    (Westfall and Young 1993, chapter 2), which assumes neither normality nor independence. ``draws`` (samples, models)
    are the metric on resampled examples, the same for all models; less is better.
    """
    best = min(range(len(values)), key=values.__getitem__)
    centered = draws - draws.mean(axis=0)
    errors = np.stack([(centered - centered[:, i : i + 1]).std(axis=0, ddof=1) for i in range(len(values))])
    largest = largest_of_all_pairs(centered, errors)
    return [
        None if i == best else difference_by_chance(values[i] - values[best], float(errors[i, best]), largest, EXAMPLES)
        for i in range(len(values))
    ]


def adjust_by_holm(p: Sequence[float]) -> list[float]:
    """Adjust p-values so that with none of the effects the chance that any is significant is at most 5 %.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure, https://www.jstor.org/stable/4615733.

    >>> [round(value, 3) for value in adjust_by_holm([0.03, 0.01, 0.04])]
    [0.06, 0.03, 0.06]
    """
    order = sorted(range(len(p)), key=p.__getitem__)
    steps = np.array([(len(p) - step) * p[index] for step, index in enumerate(order)])
    adjusted = dict(zip(order, np.maximum.accumulate(steps).clip(max=1).tolist(), strict=True))
    return [adjusted[index] for index in range(len(p))]


def largest_of_all_pairs(draws: Numbers, pair_errors: Numbers) -> Numbers:
    """The largest standardized difference of two means in each draw of their errors (draws, means).

    ``pair_errors`` (means, means) are the standard errors of differences; pairs without one do not count.
    """
    largest, means = np.zeros(len(draws)), np.ascontiguousarray(draws.T)  # rows of numbers that lie beside each other
    for i in range(len(means) - 1):
        gaps = _standardize(means[i + 1 :] - means[i], pair_errors[i, i + 1 :, None])
        largest = np.maximum(largest, np.abs(gaps).max(axis=0))
    return largest


def difference_by_chance(difference: float, error: float, largest: Numbers, test: str = SEEDS) -> MeanDifference:
    """A difference by what the largest standardized one is by chance, in draws (draws,)."""
    p = (np.count_nonzero(largest >= abs(_lead(difference, error))) + 1) / (len(largest) + 1)
    half = float(np.quantile(largest, 1 - SIGNIFICANCE_LEVEL)) * error
    low, high = difference - half, difference + half
    return MeanDifference(float(difference), float(low), float(high), p, test)


def count_draws(means: int) -> int:
    """How many draws of the errors of so many means are made."""
    return min(MAX_DRAWS, max(MIN_DRAWS, MAX_NUMBERS // max(1, means**2)))


def _simulate_errors(groups: Groups, least: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """The standard errors of means (groups,), their degrees of freedom, and draws of the errors (draws, groups)."""
    variances, degrees = moderate_variances(groups, least)
    errors = np.sqrt(variances / [len(group) for group in groups])
    random, shape = np.random.default_rng(0), (count_draws(len(groups)), len(groups))
    chi_squares = random.chisquare(np.maximum(degrees, 1), shape) / np.maximum(degrees, 1)  # 0 where nothing varies
    return errors, degrees, errors * random.normal(size=shape) / np.sqrt(chi_squares)


def _standardize(gaps: Numbers, errors: Numbers) -> Numbers:
    """Gaps in standard errors, those of (draws, k) in (k,) and of (k, draws) in (k, 1); 0 where there is none."""
    return np.asarray(np.divide(gaps, errors, out=np.zeros_like(gaps), where=errors > 0))


def _lead(difference: float, error: float) -> float:
    """A difference in standard errors."""
    return difference / error if error else math.inf if difference else 0.0


def _is_behind(group: Sequence[float], best: Sequence[float]) -> bool:
    """Whether a group's mean is above the best's by Welch's test; by their means if neither varies."""
    if not sum_of_squares(group) + sum_of_squares(best):
        return fmean(group) > fmean(best)
    first, second = ((fmean(values), stdev(values), len(values)) for values in (group, best))
    p = stats.ttest_ind_from_stats(*first, *second, equal_var=False, alternative="greater").pvalue
    return bool(p < SIGNIFICANCE_LEVEL)
