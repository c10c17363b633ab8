"""Distribution of Dunnett's test: the largest standardized difference of several means from a control's.

``scipy.stats.dunnett`` computes the same p-values by quasi Monte Carlo: it takes a second for 24 means, and the third
digit is random. A report uses each mean as the control, so the integral is computed by Gauss quadrature here.
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

NODES = 48  # p-values are right to 3e-5, with 1 degree of freedom as with 100


def exceedance(t: float, sizes: Sequence[int], control: int, degrees: int) -> float:
    """The probability that some mean is ``t`` standard errors or more from the control's if no means differ.

    The statistics are normal with correlations ``a_i a_j``, ``a = sqrt(n / (n + control))``, over a common standard
    deviation: given the control's deviation and that one they are independent (Dunnett 1955, section 3,
    https://doi.org/10.1080/01621459.1955.10501294).

    Args:
        t: difference in its standard errors.
        sizes: number of values of each mean.
        control: number of values of the control.
        degrees: degrees of freedom of the common variance.
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
def critical_value(level: float, sizes: tuple[int, ...], control: int, degrees: int) -> float:
    """The ``t`` with exceedance probability ``level``; arguments as in :func:`exceedance`."""
    return float(brentq(lambda t: exceedance(t, sizes, control, degrees) - level, 0, 1e4, xtol=1e-6))


@lru_cache(maxsize=256)
def _nodes(degrees: int) -> tuple[NDArray[np.float64], ...]:
    """Quadrature nodes and weights of a normal deviate, and of an estimated over a true standard deviation."""
    means, weights = np.polynomial.hermite_e.hermegauss(NODES)
    shares, share_weights = np.polynomial.legendre.leggauss(NODES)
    deviations = chi.ppf((shares + 1) / 2, degrees) / np.sqrt(degrees)
    return means, weights / np.sqrt(2 * np.pi), deviations, share_weights / 2
