"""The 95 % interval of each measure of a test: exact for proportions, of other draws of the examples for the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from torch import nn

from attnx.metrics.proportions import CountsExamples, Proportion
from attnx.read_run import Interval
from attnx.tasks.protocols import SequenceTask
from attnx.training.experiment import Prediction
from attnx.training.resampling import Numbers

PERCENT = 100
EDGES = (2.5, 97.5)


def measure_intervals(
    task: SequenceTask, tags: Sequence[str], predictions: Sequence[Prediction], drawn: Mapping[str, Numbers]
) -> dict[str, Interval]:
    """The intervals of a test's measures, by their names in the results.

    A proportion of examples has the exact one of the binomial distribution, which has a width even where none is
    wrong; a mean of several has theirs together. Of any other measure, and where examples have ``neighbours``, so
    that their number says too much, it is between the percentiles of ``drawn``. A measure without a number in some
    draw, or with the same in all of them, has none.
    """
    found = {name: interval for name, values in drawn.items() if (interval := _percentiles(values))}
    return found if hasattr(task, "neighbours") else found | _proportions(task, tags, predictions)


def _percentiles(values: Numbers) -> Interval | None:
    if not np.isfinite(values).all():
        return None
    low, high = np.percentile(values, EDGES).tolist()
    return None if math.isclose(low, high) else Interval(low, high)


def _proportions(task: SequenceTask, tags: Sequence[str], predictions: Sequence[Prediction]) -> dict[str, Interval]:
    metrics = nn.ModuleDict(
        {
            name: metric
            for name, metric in task.metrics(tags).items()
            if isinstance(metric, CountsExamples) and metric.proportions()
        }
    )
    if not metrics:
        return {}
    task.update(metrics, [one.output for one in predictions], [one.pair for one in predictions])
    found = {}
    for name, metric in metrics.items():
        assert isinstance(metric, CountsExamples)
        for entry, proportions in metric.proportions().items():
            if proportions and all(proportion.examples for proportion in proportions):
                low, high = interval_of_mean(proportions)
                found[f"test_{name}{entry and '_' + entry}"] = Interval(PERCENT * low, PERCENT * high)
    return found


def interval_of_mean(proportions: Sequence[Proportion]) -> Interval:
    """The 95 % interval of the mean of independent proportions; of one alone its exact interval.

    Formula: ``m - sqrt(sum (p_i - l_i)^2) / k`` to ``m + sqrt(sum (u_i - p_i)^2) / k``
    Source: Zou and Donner 2008, https://doi.org/10.1002/sim.3095; l and u: Clopper and Pearson 1934,
        https://doi.org/10.1093/biomet/26.4.404

    >>> [round(100 * edge, 2) for edge in interval_of_mean([Proportion(0, 1000)])]
    [0.0, 0.37]
    """
    from scipy.stats import binomtest

    count, mean, below, above = len(proportions), 0.0, 0.0, 0.0
    for counted, examples in proportions:
        share, exact = counted / examples, binomtest(counted, examples).proportion_ci(method="exact")
        mean += share / count
        below += (share - float(exact.low)) ** 2
        above += (float(exact.high) - share) ** 2
    return Interval(max(0.0, mean - math.sqrt(below) / count), min(1.0, mean + math.sqrt(above) / count))
