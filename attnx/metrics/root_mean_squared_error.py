"""Root mean squared error: how far off written numbers are, in the data's own units, the worst counting most."""

from __future__ import annotations

import numpy as np
import torch

from attnx.metrics.mean_error import MeanCost
from attnx.registry import register


@register("metric", "root_mean_squared_error")
def root_mean_squared_error() -> MeanCost:
    """How far numbers are from those of the reference, one that is far off counting more than several that are near.

    Formula: ``sqrt(sum (y - r)^2 / how many), over all numbers of the steps that both have``
    Source: Chai and Draxler 2014, https://doi.org/10.5194/gmd-7-1247-2014

    In the units of the data, all columns alike. Steps that only one of the two has are left out: ``length_error`` tells
    of them. It is NaN before the first step.

    >>> metric = root_mean_squared_error()
    >>> metric.update([np.array([[1.0, 9.0]])], [np.array([[2.0, 2.0], [3.0, 3.0]])])
    >>> metric.compute().item()
    5.0
    """
    return MeanCost(np.square, torch.sqrt)
