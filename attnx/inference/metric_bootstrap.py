"""Bootstrap distribution of the metrics of a test."""

from __future__ import annotations

from collections.abc import Sequence
from types import MethodType
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_max, dim_zero_min, dim_zero_sum

from attnx.inference.predictor import Prediction, metric_results
from attnx.reports.stats.bootstrap import SAMPLES, resample_sums
from attnx.tasks.contract import SequenceTask

Numbers = NDArray[np.float64]


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
        metrics that some draw cannot compute.
    """
    metrics = nn.ModuleDict({name: metric for name, metric in task.metrics(tags).items() if _has_sum_states(metric)})
    if not metrics or len(predictions) < 2:
        return {}
    sums = _unwrap_metrics(metrics)
    order, block = range(len(predictions)), 1
    if hasattr(task, "neighbors"):
        order, block = task.neighbors([prediction.pair for prediction in predictions])
    columns, per_example = _example_sums(task, metrics, sums, [predictions[index] for index in order])
    draws: dict[str, list[float]] = {}
    flat = np.zeros(sum(part.state.numel() for part in sums))  # all states, concatenated
    ends = np.cumsum([part.state.numel() for part in sums])
    states = [torch.from_numpy(state) for state in np.split(flat, ends[:-1])]
    for total in resample_sums(per_example, block):
        flat[columns] = total
        for part, state in zip(sums, states, strict=True):
            part.state.copy_(state.view_as(part.state))
        for name, value in metric_results("test", metrics).items():
            draws.setdefault(name, []).append(float(value))
    return {name: np.array(values) for name, values in draws.items() if len(values) == SAMPLES}


def _has_sum_states(metric: nn.Module) -> bool:
    """Whether all states are sums, minima or maxima; the latter are the same for any draw."""
    reductions = (dim_zero_sum, dim_zero_min, dim_zero_max)
    parts = [part for part in metric.modules() if isinstance(part, Metric)]
    return all(reduction in reductions for part in parts for reduction in part._reductions.values())


def _unwrap_metrics(metrics: nn.ModuleDict) -> list[_Sum]:
    """Strip synchronization and caching off all metrics, and return their sums."""
    parts = [part for part in metrics.modules() if isinstance(part, Metric)]
    for part in parts:
        part.update = MethodType(type(part).update, part)  # type: ignore[method-assign]
        part.compute = MethodType(type(part).compute, part)  # type: ignore[method-assign]
    return [_Sum(part, name) for part in parts for name, fn in part._reductions.items() if fn is dim_zero_sum]


def _example_sums(
    task: SequenceTask, metrics: nn.ModuleDict, sums: Sequence[_Sum], predictions: Sequence[Prediction]
) -> tuple[NDArray[np.int64], Numbers]:
    """What each example adds to the concatenated states: the columns that any adds to, and (n, columns)."""
    columns: list[NDArray[np.int64]] = []
    values: list[Numbers] = []
    for prediction in predictions:
        for part in sums:
            part.state.zero_()
        task.update(metrics, [prediction.output], [prediction.pair])
        flat = torch.cat([part.state.double().flatten() for part in sums]).numpy()
        columns.append(np.flatnonzero(flat))
        values.append(flat[columns[-1]])
    used = np.unique(np.concatenate(columns))
    per_example = np.zeros((len(predictions), len(used)))
    for row, (indices, numbers) in enumerate(zip(columns, values, strict=True)):
        per_example[row, np.searchsorted(used, indices)] = numbers
    return used, per_example
