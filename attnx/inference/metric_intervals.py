"""The 95 % interval of each measure of a test: exact for proportions, of other draws of the examples for the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from torch import nn

from attnx.inference.metric_bootstrap import Numbers
from attnx.metrics.proportions import ProportionMetric, interval_of_mean
from attnx.reports.stats.bootstrap import percentile_interval
from attnx.runs.results_json import Interval
from attnx.tasks.protocols import SequenceTask
from attnx.training.lightning_module import Prediction

PERCENT = 100


def measure_intervals(
    task: SequenceTask, tags: Sequence[str], predictions: Sequence[Prediction], drawn: Mapping[str, Numbers]
) -> dict[str, Interval]:
    """The intervals of a test's measures, by their names in the results.

    A proportion of examples has the exact one of the binomial distribution, which has a width even where none is
    wrong; a mean of several has theirs together. Of any other measure, and where examples have ``neighbors``, so
    that their number says too much, it is between the percentiles of ``drawn``. A measure without a number in some
    draw, or with the same in all of them, has none.
    """
    found = {name: interval for name, values in drawn.items() if (interval := _percentiles(values))}
    return found if hasattr(task, "neighbors") else found | _proportions(task, tags, predictions)


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
    task.update(metrics, [one.output for one in predictions], [one.pair for one in predictions])
    found = {}
    for name, metric in metrics.items():
        assert isinstance(metric, ProportionMetric)
        for entry, proportions in metric.proportions().items():
            if proportions and all(proportion.examples for proportion in proportions):
                low, high = interval_of_mean(proportions)
                found[f"test_{name}{entry and '_' + entry}"] = Interval(PERCENT * low, PERCENT * high)
    return found
