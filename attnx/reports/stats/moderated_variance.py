"""The variance of each of several groups, moderated by those of all groups (empirical Bayes)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

Numbers = NDArray[np.float64]
Groups = Sequence[Sequence[float]]

PRIOR_SHARE = 0.5
"""The share of the prior's estimated degrees of freedom that counts: of few groups it is often overestimated."""
MAX_PRIOR_DEGREES = 1e4


class ModeratedVariances(NamedTuple):
    """The variance of each group (groups,), and its degrees of freedom (groups,).

    Both are 0 for all groups if none varies. A group whose values are all equal keeps a variance of 0: the noise of
    other groups is not its own.
    """

    variances: Numbers
    degrees: Numbers


def moderate_variances(groups: Groups) -> ModeratedVariances:
    """Shrink the variance of each group towards that of all groups, the more the more alike they are.

    The variances s_i^2 with d_i degrees of freedom are taken for draws around a prior variance s_0^2 with d_0 degrees
    of freedom, both estimated from the logarithms of the variances; half of d_0 counts. The moderated variance is
    ``(d_0 / 2 s_0^2 + d_i s_i^2) / (d_0 / 2 + d_i)``, with as many degrees of freedom as the denominator says, but no
    more than all groups have. A group of one value has the prior's variance and degrees of freedom, at least 1.

    Source: Smyth 2004, equations 3, 4 and section 6.2, https://doi.org/10.2202/1544-6115.1027
    """
    degrees = np.array([len(group) - 1 for group in groups], dtype=np.float64)
    squares = np.array([sum_of_squares(group) for group in groups])
    variances = squares / np.maximum(degrees, 1)
    varies = squares > 0
    if not varies.any():
        return ModeratedVariances(np.zeros(len(groups)), np.zeros(len(groups)))
    total = float(degrees[varies].sum())
    prior, prior_degrees = _fit_prior(variances[varies], degrees[varies])
    weight = min(PRIOR_SHARE * prior_degrees, total)
    if prior_degrees >= MAX_PRIOR_DEGREES:  # the variances are as equal as chance makes equal ones
        prior = float(squares[varies].sum()) / total
    moderated = (weight * prior + squares) / np.maximum(weight + degrees, 1)
    moderated = np.where(varies, moderated, np.where(degrees > 0, 0.0, prior))
    return ModeratedVariances(moderated, np.clip(weight + degrees, 1, total))


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
