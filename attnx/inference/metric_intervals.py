"""95 % intervals of test metrics and of their differences from baselines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from torch import nn

from attnx.inference.metric_bootstrap import Numbers
from attnx.inference.predictor import Prediction
from attnx.metrics.proportions import ProportionMetric, interval_of_mean
from attnx.reports.stats.bootstrap import percentile_interval
from attnx.runs.results_json import BaselineDifference, Interval
from attnx.tasks.contract import SequenceTask

PERCENT = 100


def measure_intervals(
    task: SequenceTask, tags: Sequence[str], predictions: Sequence[Prediction], resampled: Mapping[str, Numbers]
) -> dict[str, Interval]:
    """The intervals of a test's metrics, by their names in the results.

    A proportion of examples has the exact interval of the binomial distribution, which has a width even if no example
    is wrong; so has a mean of proportions. Other metrics have the percentiles of the bootstrap samples; proportions,
    too, if ``task.neighbors`` depend on each other, since dependent examples carry less information. A metric that is
    not finite in some sample, or equal in all, has no interval.
    """
    intervals = {}
    for name, samples in resampled.items():
        if np.isfinite(samples).all():
            low, high = percentile_interval(samples)
            if not math.isclose(low, high):
                intervals[name] = Interval(low, high)
    proportions = _proportions(task, tags, predictions)
    if proportions and task.neighbors([prediction.pair for prediction in predictions])[1] > 1:
        return intervals
    return intervals | proportions


def _proportions(task: SequenceTask, tags: Sequence[str], predictions: Sequence[Prediction]) -> dict[str, Interval]:
    metrics = {
        name: metric
        for name, metric in task.metrics(tags).items()
        if isinstance(metric, ProportionMetric) and metric.proportions()
    }
    if metrics:
        outputs = [prediction.output for prediction in predictions]
        task.update(nn.ModuleDict(metrics), outputs, [prediction.pair for prediction in predictions])
    intervals = {}
    for name, metric in metrics.items():
        for entry, proportions in cast("ProportionMetric", metric).proportions().items():
            if proportions and all(proportion.examples for proportion in proportions):
                low, high = interval_of_mean(proportions)
                intervals[f"test_{name}{entry and '_' + entry}"] = Interval(PERCENT * low, PERCENT * high)
    return intervals


def baseline_differences(
    task: SequenceTask, results: Mapping[str, float], resampled: Mapping[str, Numbers]
) -> dict[str, dict[str, BaselineDifference]]:
    """Each metric of a run minus each baseline's, by baseline and metric, with an interval by paired bootstrap.

    Args:
        task: its ``baselines`` have metrics such as ``test_naive_mse``, the baseline's name in front.
        results: of the run's test.
        resampled: the metrics of bootstrap samples; one that is not finite in some sample is left out.
    """
    differences: dict[str, dict[str, BaselineDifference]] = {}
    for baseline in task.baselines:
        prefix = f"test_{baseline}_"
        for baseline_metric in (name for name in resampled if name.startswith(prefix)):
            metric = f"test_{baseline_metric.removeprefix(prefix)}"
            if metric not in resampled:
                continue
            samples = resampled[metric] - resampled[baseline_metric]
            if np.isfinite(samples).all():
                difference = results[metric] - results[baseline_metric]
                low, high = percentile_interval(samples)
                differences.setdefault(baseline, {})[metric] = BaselineDifference(difference, low, high)
    return differences
