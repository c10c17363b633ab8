"""A mean minus another, and how sure that is."""

from __future__ import annotations

from typing import Final, NamedTuple

LEVEL: Final = 0.05
POOLED: Final = "pooled"
UNEQUAL: Final = "unequal"
EXAMPLES: Final = "examples"


class MeanDifference(NamedTuple):
    """A mean minus another, its 95 % interval, the two-sided p-value, and the test: a name above."""

    difference: float
    low: float
    high: float
    p: float
    test: str
