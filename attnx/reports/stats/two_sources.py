"""A difference between models on other seeds and other test examples: two sources of variance, resampled together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attnx.reports.stats.mean_difference import LEVEL

Numbers = NDArray[np.float64]


def resample_means(draws: Sequence[Numbers], values: Sequence[Sequence[float]], seed: int = 0) -> Numbers:
    """Draw the examples of a test and the seeds of each group again, and take each group's mean over seeds.

    Examples were drawn again before, the same for all runs. Seeds are drawn as deviations from their group's mean out
    of those of all groups, since few seeds of one group alone say too little; deviations of n values are widened by
    sqrt(n / (n - 1)), so that they have the variance that n values estimate (Davison and Hinkley 1997, section 3.3).

    Args:
        draws: of each group (samples, seeds) the measure of each run on examples drawn again.
        values: of each group the measure of each run, as it was measured.
        seed: of the draws.

    Returns:
        (samples, groups).
    """
    random = np.random.default_rng(seed)
    several = [np.asarray(group) for group in values if len(group) > 1]
    widened = [(group - group.mean()) * math.sqrt(len(group) / (len(group) - 1)) for group in several]
    deviations = np.concatenate(widened) if widened else np.zeros(1)
    means = []
    for group in draws:
        chosen = random.integers(0, len(deviations), group.shape)
        means.append(group.mean(axis=1) + deviations[chosen].mean(axis=1))
    return np.stack(means, axis=1)


def difference_interval(means: Numbers, group: int, other: int) -> tuple[float, float]:
    """The 95 % percentile interval of one group's mean minus another's, of means (samples, groups)."""
    low, high = np.quantile(means[:, group] - means[:, other], [LEVEL / 2, 1 - LEVEL / 2])
    return float(low), float(high)
