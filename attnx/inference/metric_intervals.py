"""95 % intervals of test measures: exact for proportions, bootstrap percentiles for others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from torch import nn

from attnx.inference.metric_bootstrap import Numbers
from attnx.inference.predictor import Prediction
from attnx.metrics.proportions import ProportionMetric, interval_of_mean
from attnx.reports.stats.bootstrap import percentile_interval
from attnx.runs.results_json import Interval
from attnx.tasks.contract import SequenceTask

PERCENT = 100


def measure_intervals(
    task: SequenceTask, tags: Sequence[str], predictions: Sequence[Prediction], resampled: Mapping[str, Numbers]
) -> dict[str, Interval]:
    """The intervals of a test's measures, by their names in the results.

    A proportion of examples has the exact interval of the binomial distribution, which has a width even if no example
    is wrong; so has a mean of proportions. Other measures have the percentiles of the bootstrap samples; proportions,
    too, if the task has ``neighbors``, since dependent examples carry less information. A measure that is not finite in
    some sample, or equal in all, has no interval.
    """
    intervals = {name: interval for name, values in resampled.items() if (interval := _percentiles(values))}
    return intervals if hasattr(task, "neighbors") else intervals | _proportions(task, tags, predictions)


def _percentiles(values: Numbers) -> Interval | None:
    if not np.isfinite(values).all():
        return None
    low, high = percentile_interval(values)
    return None if math.isclose(low, high) else Interval(low, high)


def _proportions(task: SequenceTask, tags: Sequence[str], predictions: Sequence[Prediction]) -> dict[str, Interval]:
    metrics = nn.ModuleDict(
        {
            name: metric
            for name, metric in task.metrics(tags).items()
            if isinstance(metric, ProportionMetric) and metric.proportions()
        }
    )
    if not metrics:
        return {}
    task.update(
        metrics, [prediction.output for prediction in predictions], [prediction.pair for prediction in predictions]
    )
    intervals = {}
    for name, metric in metrics.items():
        assert isinstance(metric, ProportionMetric)
        for entry, proportions in metric.proportions().items():
            if proportions and all(proportion.examples for proportion in proportions):
                low, high = interval_of_mean(proportions)
                intervals[f"test_{name}{entry and '_' + entry}"] = Interval(PERCENT * low, PERCENT * high)
    return intervals
