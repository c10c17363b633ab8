"""The difference of two means, with its interval and p-value."""

from __future__ import annotations

from typing import Final, NamedTuple

SIGNIFICANCE_LEVEL: Final = 0.05
POOLED: Final = "pooled"
UNEQUAL: Final = "unequal"
EXAMPLES: Final = "examples"


class MeanDifference(NamedTuple):
    """The difference of two means, its 95 % interval, a two-sided p-value, and the test, one of the names above."""

    difference: float
    low: float
    high: float
    p: float
    test: str
