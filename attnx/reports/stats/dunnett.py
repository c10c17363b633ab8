"""Dunnett's distribution: how far several means go from a control's by chance, all of one variance.

``scipy.stats.dunnett`` has the same p-values by quasi Monte Carlo, which takes a second for 24 means and leaves the
third digit to chance; a report asks for each mean as the control. Here the integral is a sum over nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import chi

NODES = 48  # p-values are then right to 3e-5, of 1 degree of freedom as of 100


def exceedance(t: float, sizes: Sequence[int], control: int, degrees: int) -> float:
    """The chance that some mean is ``t`` standard errors or more from the control's, where none truly differs.

    The statistics are normal with correlations ``a_i a_j``, ``a = sqrt(n / (n + control))``, over a common standard
    deviation: given the control's own deviation and that one they are independent (Dunnett 1955, section 3,
    https://doi.org/10.1080/01621459.1955.10501294).

    Args:
        t: how many standard errors of its own difference.
        sizes: how many values each mean is of.
        control: how many the control's mean is of.
        degrees: of freedom, with which the common variance is known.
    """
    means, mean_weights, deviations, deviation_weights = _nodes(degrees)
    within = np.ones((len(deviations), len(means)))
    for size, count in Counter(sizes).items():
        loading = np.sqrt(size / (size + control))
        apart = np.sqrt(1 - loading**2)
        middle, reach = loading * means[None, :] / apart, t * deviations[:, None] / apart
        within *= (ndtr(reach + middle) - ndtr(-reach + middle)) ** count
    return max(0.0, 1 - float(deviation_weights @ within @ mean_weights))


@lru_cache(maxsize=4096)
def critical_value(level: float, sizes: tuple[int, ...], control: int, degrees: int) -> float:
    """The ``t`` that is exceeded with the chance ``level``; arguments as in :func:`exceedance`."""
    return float(brentq(lambda t: exceedance(t, sizes, control, degrees) - level, 0, 1e4, xtol=1e-6))


@lru_cache(maxsize=256)
def _nodes(degrees: int) -> tuple[NDArray[np.float64], ...]:
    """Nodes and weights of a normal deviate, and of a standard deviation of so many degrees of freedom over its own."""
    means, weights = np.polynomial.hermite_e.hermegauss(NODES)
    shares, share_weights = np.polynomial.legendre.leggauss(NODES)
    deviations = chi.ppf((shares + 1) / 2, degrees) / np.sqrt(degrees)
    return means, weights / np.sqrt(2 * np.pi), deviations, share_weights / 2
