"""Bootstrap over both seeds and test examples."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def resample_means(draws: Sequence[Numbers], values: Sequence[Sequence[float]], seed: int = 0) -> Numbers:
    """Means of groups over resampled seeds and test examples.

    The draws of examples are given and shared by all runs. Seeds are drawn as deviations from group means, pooled over
    groups, since one group has few seeds. Deviations of n values are scaled by sqrt(n / (n - 1)) to the variance that n
    values estimate (Davison and Hinkley 1997, section 3.3).

    Args:
        draws: (samples, seeds) per group, the metric of each run on resampled examples.
        values: of each group, the measured metric of each run.
        seed: of the draws.

    Returns:
        (samples, groups).
    """
    random = np.random.default_rng(seed)
    groups = [np.asarray(group) for group in values if len(group) > 1]
    scaled = [(group - group.mean()) * math.sqrt(len(group) / (len(group) - 1)) for group in groups]
    deviations = np.concatenate(scaled) if scaled else np.zeros(1)
    means = []
    for group in draws:
        indices = random.integers(0, len(deviations), group.shape)
        means.append(group.mean(axis=1) + deviations[indices].mean(axis=1))
    return np.stack(means, axis=1)
