"""How large the largest difference of several means is by chance: Dunnett's and Tukey's distributions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr

# P-values of Dunnett's test are right to 3e-5 where all groups have equally many values, with 1 degree of freedom as
# with 100; to 2e-3 where they have fifty times as many as the control.
NODES: Final = 48
RANGE_NODES: Final = 160
MAX_DEVIATE: Final = 8.5  # no normal deviate is larger, to double precision
TAIL: Final = 1e-14  # of the distribution of an estimated deviation, which is left out on both sides


def dunnett_sf(t: float, sizes: Sequence[int], control: int, degrees: float) -> float:
    """The probability that some mean is ``t`` standard errors or more from the control's if no means differ (Dunnett).

    ``scipy.stats.dunnett`` computes it by quasi Monte Carlo: it takes a second for 24 means, and the third digit is
    random. A report uses each mean as the control, so the integral is computed by Gauss quadrature here.

    The statistics are normal with correlations ``a_i a_j``, ``a = sqrt(n / (n + control))``, over a common standard
    deviation: given the control's deviation and that one they are independent (Dunnett 1955, section 3,
    https://doi.org/10.1080/01621459.1955.10501294). ``sizes`` and ``control`` are numbers of values, ``degrees``
    those of freedom of the common variance.
    """
    means, mean_weights, deviations, deviation_weights = _nodes(degrees)
    within = np.ones((len(deviations), len(means)))
    for size, count in Counter(sizes).items():
        loading = np.sqrt(size / (size + control))
        scale = np.sqrt(1 - loading**2)
        center, reach = loading * means[None, :] / scale, t * deviations[:, None] / scale
        within *= (ndtr(reach + center) - ndtr(-reach + center)) ** count
    return max(0.0, 1 - float(deviation_weights @ within @ mean_weights))


@lru_cache(maxsize=4096)
def dunnett_isf(level: float, sizes: tuple[int, ...], control: int, degrees: float) -> float:
    """The ``t`` that is exceeded with probability ``level``, the inverse of :func:`dunnett_sf`."""
    return float(brentq(lambda t: dunnett_sf(t, sizes, control, degrees) - level, 0, 1e4, xtol=1e-6))


def range_sf(q: float, groups: int, degrees: float) -> float:
    """The probability that the largest of several means is ``q`` standard errors or more above the least (Tukey).

    ``scipy.stats.studentized_range`` takes a second for a quantile, and each pair of settings whose variances differ
    has its own degrees of freedom. Given the largest mean, z, all others lie between z - q and z.
    """
    _, _, deviations, deviation_weights = _nodes(degrees)
    largest, weights = _range_nodes()
    between = ndtr(largest[None, :]) - ndtr(largest[None, :] - q * deviations[:, None])
    within = groups * between ** (groups - 1) @ (weights * np.exp(-(largest**2) / 2) / np.sqrt(2 * np.pi))
    return float(np.clip(1 - deviation_weights @ within, 0, 1))


@lru_cache(maxsize=4096)
def range_isf(level: float, groups: int, degrees: float) -> float:
    """The ``q`` that is exceeded with probability ``level``, the inverse of :func:`range_sf`."""
    return float(brentq(lambda q: range_sf(q, groups, degrees) - level, 0, 1e4, xtol=1e-6))


@lru_cache(maxsize=1)
def _range_nodes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Quadrature nodes and weights of where the largest of several normal deviates may lie."""
    shares, weights = np.polynomial.legendre.leggauss(RANGE_NODES)
    return shares * MAX_DEVIATE, weights * MAX_DEVIATE


@lru_cache(maxsize=256)
def _nodes(degrees: float) -> tuple[NDArray[np.float64], ...]:
    """Quadrature nodes and weights of a normal deviate, and of an estimated over a true standard deviation."""
    means, weights = np.polynomial.hermite_e.hermegauss(NODES)
    shares, share_weights = np.polynomial.legendre.leggauss(NODES)
    low, high = stats.chi.ppf(TAIL, degrees), stats.chi.isf(TAIL, degrees)
    deviations = low + (high - low) * (shares + 1) / 2
    deviation_weights = share_weights * (high - low) / 2 * stats.chi.pdf(deviations, degrees)
    return means, weights / np.sqrt(2 * np.pi), deviations / np.sqrt(degrees), deviation_weights
