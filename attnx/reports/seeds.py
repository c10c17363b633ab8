"""How surely one setting is better than another: Student's t over the seeds both were trained with, and Holm's rule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev, variance
from typing import Any, NamedTuple

LEVEL = 0.05


class Gap(NamedTuple):
    """A mean minus another, its 95 % interval, the two-sided p-value, and by which test that was found."""

    difference: float
    low: float
    high: float
    p: float
    test: str


PAIRED, APART, EXAMPLES = "seeds", "unpaired", "examples"


def gap_over_seeds(a: Mapping[Any, float], b: Mapping[Any, float]) -> Gap | None:
    """Compare two settings by their values, seed by seed: Student's paired t, over the seeds both have.

    With fewer than two such seeds, Welch's t, which pairs nothing. None if either has one seed only, or if they differ
    by the same in every seed: nothing then says how far that would vary.
    """
    shared = [seed for seed in a if seed in b]
    if len(shared) > 1:
        steps = [a[seed] - b[seed] for seed in shared]
        return _gap(fmean(steps), stdev(steps) / math.sqrt(len(steps)), len(steps) - 1, PAIRED)
    if len(a) < 2 or len(b) < 2:
        return None
    one, other = (variance(values.values()) / len(values) for values in (a, b))
    spread = one**2 / (len(a) - 1) + other**2 / (len(b) - 1)
    degrees = math.floor((one + other) ** 2 / spread) if spread else len(a) + len(b) - 2
    return _gap(fmean(a.values()) - fmean(b.values()), math.sqrt(one + other), degrees, APART)


def _gap(difference: float, error: float, degrees: int, test: str) -> Gap | None:
    if error == 0:
        return None if difference else Gap(0.0, 0.0, 0.0, 1.0, test)
    reach = student_quantile(degrees) * error
    return Gap(difference, difference - reach, difference + reach, student_p(difference / error, degrees), test)


def student_p(t: float, degrees: int) -> float:
    """The chance that Student's t is at least this far from 0, for a whole number of degrees of freedom.

    Source: Abramowitz and Stegun 1964, 26.7.3 and 26.7.4: finite sums, exact.
    """
    angle = math.atan(abs(t) / math.sqrt(degrees))
    odd = degrees % 2
    term, total = math.cos(angle) if odd else 1.0, 0.0
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * math.cos(angle) ** 2
    within = math.sin(angle) * total
    return max(0.0, 1 - (2 / math.pi * (angle + within) if odd else within))


def student_quantile(degrees: int, p: float = LEVEL) -> float:
    """How far from 0 Student's t is with the chance p."""
    low, high = 0.0, 1.0
    while student_p(high, degrees) > p:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, degrees) > p else (low, middle)
    return high


def holm(values: Sequence[float]) -> list[float]:
    """P-values of several comparisons, corrected for how many there are (Holm 1979).

    The smallest is multiplied by their number, the next by one less, and so on; none becomes smaller than one before.

    >>> holm([0.03, 0.01, 0.5])
    [0.06, 0.03, 0.5]
    """
    corrected, least = [0.0] * len(values), 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        least = max(least, min(1.0, values[place] * (len(values) - rank)))
        corrected[place] = least
    return corrected
