"""How far each of several means is behind the best of them, and how surely: multiple comparisons with the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from attnx.reports.stats.dunnett import critical_value, exceedance
from attnx.reports.stats.mean_difference import EXAMPLES, LEVEL, POOLED, UNEQUAL, MeanDifference

FEWEST = 3  # values of each group that Levene's test takes: of two, both are as far from their median
Groups = Sequence[Sequence[float]]
Numbers = NDArray[np.float64]


class Spread(NamedTuple):
    """The variance that values have within their groups, all groups together.

    Attributes:
        variance: pooled over groups.
        degrees: of freedom; 0 where no group has two values.
        levene_p: of Levene's test about medians, that groups differ in it; None where a group has too few values.
    """

    variance: float
    degrees: int
    levene_p: float | None

    @property
    def is_equal(self) -> bool:
        """Whether nothing says that groups differ in it."""
        return self.levene_p is None or self.levene_p >= LEVEL


def pooled_spread(groups: Groups) -> Spread:
    """Pool the variance within groups, and test whether it is one (Brown and Forsythe 1974)."""
    degrees = sum(len(group) - 1 for group in groups)
    if not degrees:
        return Spread(0.0, 0, None)
    pooled = sum(float(np.var(group)) * len(group) for group in groups) / degrees
    testable = len(groups) > 1 and pooled > 0 and all(len(group) >= FEWEST for group in groups)
    p = float(stats.levene(*groups, center="median").pvalue) if testable else None
    return Spread(pooled, degrees, p)


def compare_with_best(groups: Groups) -> list[MeanDifference | None]:
    """Say of each group how far its mean is above the least, the best; None of the best, and where nothing tells.

    Each group is the control of a two-sided Dunnett test against all others, with the variance pooled over groups: if
    it is excluded, it is so whichever group had turned out best. These are the multiple comparisons with the best in
    the form of Edwards and Hsu (1983, https://doi.org/10.1080/01621459.1983.10477047): where the two best are equal,
    all others but one are excluded with a chance of 5 % at most. Of two groups it is Student's t-test.

    Where Levene's test finds that variances differ, each difference has its own, and the largest of all differences is
    allowed for (Games and Howell 1976, https://doi.org/10.3102/10769986001002113).

    Args:
        groups: of values of which less is better, one or more each; two groups or more.
    """
    spread = pooled_spread(groups)
    means = [float(np.mean(group)) for group in groups]
    best = min(range(len(groups)), key=means.__getitem__)
    found: list[MeanDifference | None] = []
    for place, group in enumerate(groups):
        if place == best or not spread.degrees:
            found.append(None)
        elif spread.is_equal:
            found.append(_dunnett(means[place] - means[best], groups, place, best, spread))
        else:
            found.append(_games_howell(group, groups[best], len(groups)))
    return found


def _dunnett(gap: float, groups: Groups, place: int, best: int, spread: Spread) -> MeanDifference | None:
    error = math.sqrt(spread.variance * (1 / len(groups[place]) + 1 / len(groups[best])))
    if error == 0:
        return None if gap else MeanDifference(0.0, 0.0, 0.0, 1.0, POOLED)
    others = tuple(sorted(len(group) for number, group in enumerate(groups) if number != place))
    design = others, len(groups[place]), spread.degrees
    reach = critical_value(LEVEL, *design) * error
    return MeanDifference(gap, gap - reach, gap + reach, exceedance(gap / error, *design), POOLED)


def _games_howell(group: Sequence[float], best: Sequence[float], groups: int) -> MeanDifference | None:
    gap = float(np.mean(group) - np.mean(best))
    error = math.sqrt(sum(float(np.var(one)) / (len(one) - 1) for one in (group, best)))
    if error == 0:
        return None if gap else MeanDifference(0.0, 0.0, 0.0, 1.0, UNEQUAL)
    degrees = stats.ttest_ind(group, best, equal_var=False).df
    largest = stats.studentized_range(groups, degrees)
    reach = float(largest.ppf(1 - LEVEL)) * error / math.sqrt(2)
    p = float(largest.sf(math.sqrt(2) * gap / error))
    return MeanDifference(gap, gap - reach, gap + reach, min(1.0, max(0.0, p)), UNEQUAL)


def compare_draws_with_best(values: Sequence[float], draws: Numbers) -> list[MeanDifference | None]:
    """Say of each model how far it is above the best on a test, by what other draws of the test's examples say.

    As :func:`compare_with_best`, with the distribution of the largest difference from each model as the bootstrap has
    it, in standard errors (Westfall and Young 1993, chapter 2): no normality, and correlations as they are.

    Args:
        values: one of each model, of which less is better; two models or more.
        draws: (samples, models) the same measure on examples drawn again, the same for all models.
    """
    best = min(range(len(values)), key=values.__getitem__)
    return [None if place == best else _largest(np.array(values), draws, place, best) for place in range(len(values))]


def _largest(values: Numbers, draws: Numbers, place: int, best: int) -> MeanDifference:
    apart = draws[:, place : place + 1] - draws
    errors = apart.std(axis=0, ddof=1)
    gap, error = float(values[place] - values[best]), float(errors[best])
    if error == 0:
        return MeanDifference(gap, gap, gap, 0.0 if gap else 1.0, EXAMPLES)
    differ = errors > 0
    largest = np.abs((apart - apart.mean(axis=0))[:, differ] / errors[differ]).max(axis=1)
    reach = float(np.quantile(largest, 1 - LEVEL)) * error
    p = (np.count_nonzero(largest >= gap / error) + 1) / (len(draws) + 1)
    return MeanDifference(gap, gap - reach, gap + reach, min(1.0, float(p)), EXAMPLES)
