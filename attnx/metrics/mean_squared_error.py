"""Mean squared error: how far off written numbers are, large errors above all."""

from __future__ import annotations

import numpy as np

from attnx.metrics.mean_error import MeanCost
from attnx.registry import register


@register("metric", "mean_squared_error")
def mean_squared_error() -> MeanCost:
    """The mean of the squared differences from the reference.

    Formula: ``sum (y - r)^2 / how many, over all numbers of the steps that both have``
    Source: as forecasting papers give it, Zhou et al. 2021, table 2, https://arxiv.org/abs/2012.07436

    All columns alike, so it is meant for scaled numbers. It is NaN before the first step.

    >>> metric = mean_squared_error()
    >>> metric.update([np.array([[1.0, 5.0]])], [np.array([[2.0, 2.0]])])
    >>> metric.compute().item()
    5.0
    """
    return MeanCost(np.square)
