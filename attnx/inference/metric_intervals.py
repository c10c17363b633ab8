"""95 % intervals of test metrics and of their differences from baselines, by bootstrap or the binomial distribution."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MethodType
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn, vmap
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_sum

from attnx.inference.predictor import Prediction, metric_entries, result_name
from attnx.metrics.proportions import ProportionMetric, interval_of_mean
from attnx.reports.stats.bootstrap import Numbers, percentile_interval, resample_sums
from attnx.runs.results import BaselineDifference, Interval
from attnx.tasks.contract import SequenceTask

PERCENT = 100
MAX_NUMBERS_IN_MEMORY = 2**22


def measure_intervals(
    task: SequenceTask, tags: Sequence[str], predictions: Sequence[Prediction], resampled: Mapping[str, Numbers]
) -> dict[str, Interval]:
    """The intervals of a test's metrics, by their names in the results.

    A proportion of examples has the exact interval of the binomial distribution, which has a width even if no example
    is wrong; so has a mean of proportions. Other metrics have the percentiles of the bootstrap samples; proportions,
    too, if ``task.neighbors`` depend on each other, since dependent examples carry less information. A metric that is
    equal in all samples has no interval.
    """
    intervals = {}
    for name, samples in resampled.items():
        low, high = percentile_interval(samples)
        if not math.isclose(low, high):
            intervals[name] = Interval(low, high)
    metrics: dict[str, nn.Module] = {
        name: metric
        for name, metric in task.metrics(tags).items()
        if isinstance(metric, ProportionMetric) and metric.proportions()
    }
    pairs = [prediction.pair for prediction in predictions]
    if not metrics or task.neighbors(pairs)[1] > 1:
        return intervals
    task.update(nn.ModuleDict(metrics), [prediction.output for prediction in predictions], pairs)
    for name, metric in metrics.items():
        for entry, proportions in cast("ProportionMetric", metric).proportions().items():
            if proportions and all(proportion.examples for proportion in proportions):
                low, high = interval_of_mean(proportions)
                intervals[result_name("test", name, entry)] = Interval(PERCENT * low, PERCENT * high)
    return intervals


def baseline_differences(
    task: SequenceTask, results: Mapping[str, float], resampled: Mapping[str, Numbers]
) -> dict[str, dict[str, BaselineDifference]]:
    """Each metric of a run minus each baseline's, by baseline and metric, with an interval by paired bootstrap.

    A baseline's metrics have its name in front, such as ``test_naive_mse``.
    """
    differences: dict[str, dict[str, BaselineDifference]] = {}
    for baseline in task.baselines:
        prefix = f"test_{baseline}_"
        for baseline_metric in (name for name in resampled if name.startswith(prefix)):
            metric = f"test_{baseline_metric.removeprefix(prefix)}"
            if metric not in resampled:
                continue
            difference = results[metric] - results[baseline_metric]
            low, high = percentile_interval(resampled[metric] - resampled[baseline_metric])
            differences.setdefault(baseline, {})[metric] = BaselineDifference(difference, low, high)
    return differences


class _Sum(NamedTuple):
    """A state of a metric that adds up over examples."""

    metric: Metric
    name: str

    @property
    def state(self) -> Tensor:
        return cast("Tensor", getattr(self.metric, self.name))


def bootstrap_metrics(task: SequenceTask, tags: Sequence[str], predictions: Sequence[Prediction]) -> dict[str, Numbers]:
    """Draw the test examples with replacement and compute the metrics of each draw.

    Runs tested on the same examples in the same order share the draws, so that their differences are a paired bootstrap
    (Koehn 2004, https://aclanthology.org/W04-3250). If the task has ``neighbors``, as the windows of a
    series, dependent examples are drawn in blocks.

    Returns:
        (SAMPLES,) of each metric by its name in the results. Metrics whose states are not sums are left out, and so are
        metrics that are not finite in some draw.
    """
    all_metrics = task.metrics(tags)
    sums = {name: parts for name, metric in all_metrics.items() if (parts := _summed_states(metric))}
    if not sums or len(predictions) < 2:
        return {}
    metrics = nn.ModuleDict({name: all_metrics[name] for name in sums})
    order, block = task.neighbors([prediction.pair for prediction in predictions])
    columns, per_example = _example_sums(task, metrics, sums, [predictions[index] for index in order])
    totals = resample_sums(per_example, block)
    draws: dict[str, Numbers] = {}
    start = 0
    for name, metric in metrics.items():
        end = start + sum(part.state.numel() for part in sums[name])
        column_mask = (start <= columns) & (columns < end)
        state_columns, state_totals = columns[column_mask] - start, totals[:, column_mask]
        for entry, values in _compute_draws(metric, sums[name], state_columns, state_totals).items():
            if np.isfinite(values).all():
                draws[result_name("test", name, entry)] = values
        start = end
    return draws


def _compute_draws(
    metric: nn.Module, sums: Sequence[_Sum], columns: NDArray[np.int64], totals: Numbers
) -> dict[str, Numbers]:
    """Compute the entries of a metric of all draws at once, or one by one if it looks at the numbers.

    Of its concatenated states, ``sums``, some example adds to the ``columns`` (k,), whose ``totals`` are (draws, k).
    """
    sizes = [part.state.numel() for part in sums]
    shapes = [(part.state.shape, part.state.dtype) for part in sums]

    def compute(*states: Tensor) -> Mapping[str, Tensor]:
        for part, state in zip(sums, states, strict=True):
            setattr(part.metric, part.name, state)
        return metric_entries(metric)

    chunks = []
    for chunk in torch.split(torch.from_numpy(totals), max(1, MAX_NUMBERS_IN_MEMORY // sum(sizes))):
        flat = chunk.new_zeros(len(chunk), sum(sizes)).index_copy_(1, torch.from_numpy(columns), chunk)
        states = [
            state.view(-1, *shape).to(dtype)
            for state, (shape, dtype) in zip(torch.split(flat, sizes, 1), shapes, strict=True)
        ]
        try:
            chunks.append({entry: value.double().numpy() for entry, value in vmap(compute)(*states).items()})
        except (RuntimeError, TypeError, ValueError):  # it branches on a number, or a result is no tensor
            rows = [compute(*draw) for draw in zip(*states, strict=True)]
            common = [entry for entry in rows[0] if all(entry in row for row in rows)]
            chunks.append({entry: np.array([float(row[entry]) for row in rows]) for entry in common})
    entries = [entry for entry in chunks[0] if all(entry in chunk for chunk in chunks)]
    return {entry: np.concatenate([chunk[entry] for chunk in chunks]) for entry in entries}


def _summed_states(metric: nn.Module) -> list[_Sum]:
    """The states of a metric, and of those that it holds, whose synchronization and caching is stripped off.

    Empty unless all of them are sums, but for the metric's ``constant_states``, which are alike for any draw.
    """
    parts = [part for part in metric.modules() if isinstance(part, Metric)]
    reductions = {
        _Sum(part, name): reduction
        for part in parts
        for name, reduction in part._reductions.items()
        if name not in getattr(part, "constant_states", ())
    }
    if any(reduction is not dim_zero_sum for reduction in reductions.values()):
        return []
    for part in parts:
        part.update = MethodType(type(part).update, part)  # type: ignore[method-assign]
        part.compute = MethodType(type(part).compute, part)  # type: ignore[method-assign]
    return [*reductions]


def _example_sums(
    task: SequenceTask, metrics: nn.ModuleDict, sums: Mapping[str, Sequence[_Sum]], predictions: Sequence[Prediction]
) -> tuple[NDArray[np.int64], Numbers]:
    """What each example adds to the concatenated states: the columns that any adds to, and (n, columns)."""
    columns: list[NDArray[np.int64]] = []
    values: list[Numbers] = []
    all_sums = [part for parts in sums.values() for part in parts]
    for prediction in predictions:
        for part in all_sums:
            part.state.zero_()
        task.update(metrics, [prediction.output], [prediction.pair])
        flat = torch.cat([part.state.double().flatten() for part in all_sums]).numpy()
        columns.append(np.flatnonzero(flat))
        values.append(flat[columns[-1]])
    used = np.unique(np.concatenate(columns))
    per_example = np.zeros((len(predictions), len(used)))
    for row, (indices, numbers) in enumerate(zip(columns, values, strict=True)):
        per_example[row, np.searchsorted(used, indices)] = numbers
    return used, per_example
