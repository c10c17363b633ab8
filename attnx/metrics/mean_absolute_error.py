"""Mean absolute error: how far off written numbers are, in the data's own units."""

from __future__ import annotations

import numpy as np

from attnx.metrics.mean_error import MeanCost
from attnx.registry import register


@register("metric", "mean_absolute_error")
def mean_absolute_error() -> MeanCost:
    """How far numbers are from those of the reference, whichever way.

    Formula: ``sum |y - r| / how many, over all numbers of the steps that both have``
    Source: Willmott and Matsuura 2005, https://doi.org/10.3354/cr030079

    In the units of the data, all columns alike. Steps that only one of the two has are left out: ``length_error`` tells
    of them. It is NaN before the first step.

    >>> metric = mean_absolute_error()
    >>> metric.update([np.array([[1.0, 5.0], [3.0, 5.0]])], [np.array([[2.0, 2.0]])])
    >>> metric.compute().item()
    2.0
    """
    return MeanCost(np.abs)
