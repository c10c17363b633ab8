"""What a test would have measured on other draws of its examples: what tells runs on the same test from each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MethodType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_max, dim_zero_min, dim_zero_sum

from attnx.tasks.protocols import SequenceTask
from attnx.training.lightning_module import Prediction, computed

SAMPLES, SEED = 2000, 0
HELD = 2**20
"""So many numbers are held at once to say how often each example is drawn."""

Numbers = NDArray[np.float64]


class _Sum(NamedTuple):
    """A state of a metric that adds up over examples."""

    metric: Metric
    name: str

    @property
    def state(self) -> Tensor:
        found: Tensor = getattr(self.metric, self.name)
        return found


def resampled(task: SequenceTask, tags: Sequence[str], predictions: Sequence[Prediction]) -> dict[str, Numbers]:
    """Draw a test's examples again with replacement, and measure each draw.

    Runs that were tested on the same examples in the same order are drawn alike, so the differences between them are
    those of a paired bootstrap (Koehn 2004, https://aclanthology.org/W04-3250). Examples of a task that has
    ``neighbors``, as the windows of a series are, are drawn in blocks of those that are alike, around the end
    (Politis and Romano 1992): drawn one by one they would pass for more than they tell.

    Returns:
        (SAMPLES,) of each measure by its name in the results. A metric whose states do not add up over examples is
        left out, and so is what some draw cannot measure.
    """
    metrics = nn.ModuleDict({name: one for name, one in task.metrics(tags).items() if _adds_up(one)})
    if not metrics or len(predictions) < 2:
        return {}
    sums = _bared(metrics)
    order, alike = range(len(predictions)), 1
    if hasattr(task, "neighbors"):
        order, alike = task.neighbors([one.pair for one in predictions])
    columns, each = _counted(task, metrics, sums, [predictions[place] for place in order])
    measured: dict[str, list[float]] = {}
    whole = np.zeros(sum(part.state.numel() for part in sums))  # all sums, end to end
    ends = np.cumsum([part.state.numel() for part in sums])
    shares = [torch.from_numpy(share) for share in np.split(whole, ends[:-1])]
    for total in _drawn(each, alike):
        whole[columns] = total
        for part, share in zip(sums, shares, strict=True):
            part.state.copy_(share.view_as(part.state))
        for name, value in computed("test", metrics).items():
            measured.setdefault(name, []).append(float(value))
    return {name: np.array(values) for name, values in measured.items() if len(values) == SAMPLES}


def _adds_up(metric: nn.Module) -> bool:
    """Whether all its states are sums, or what is the same for any draw: the least and the most."""
    known = (dim_zero_sum, dim_zero_min, dim_zero_max)
    parts = [part for part in metric.modules() if isinstance(part, Metric)]
    return all(part._reductions[name] in known for part in parts for name in part._defaults)


def _bared(metrics: nn.ModuleDict) -> list[_Sum]:
    """The sums of all metrics, which from now on neither ask other processes nor remember what they computed."""
    parts = [part for part in metrics.modules() if isinstance(part, Metric)]
    for part in parts:
        part.update = MethodType(type(part).update, part)  # type: ignore[method-assign]
        part.compute = MethodType(type(part).compute, part)  # type: ignore[method-assign]
    return [_Sum(part, name) for part in parts for name in part._defaults if part._reductions[name] is dim_zero_sum]


def _counted(
    task: SequenceTask, metrics: nn.ModuleDict, sums: Sequence[_Sum], predictions: Sequence[Prediction]
) -> tuple[NDArray[np.int64], Numbers]:
    """What each example adds to the sums, laid side by side: which places any adds to, and (n, places)."""
    places: list[NDArray[np.int64]] = []
    values: list[Numbers] = []
    for one in predictions:
        for part in sums:
            part.state.zero_()
        task.update(metrics, [one.output], [one.pair])
        flat = torch.cat([part.state.double().flatten() for part in sums]).numpy()
        places.append(np.flatnonzero(flat))
        values.append(flat[places[-1]])
    columns = np.unique(np.concatenate(places))
    each = np.zeros((len(predictions), len(columns)))
    for row, (at, more) in enumerate(zip(places, values, strict=True)):
        each[row, np.searchsorted(columns, at)] = more
    return columns, each


def _drawn(each: Numbers, block: int) -> Iterator[Numbers]:
    """SAMPLES sums over as many examples as there are, drawn in blocks of neighbors."""
    count, random = len(each), np.random.default_rng(SEED)
    at_once = max(1, HELD // count)
    for done in range(0, SAMPLES, at_once):
        number = min(at_once, SAMPLES - done)
        starts = random.integers(0, count, (number, -(-count // block), 1))
        rows = ((starts + np.arange(block)) % count).reshape(number, -1)[:, :count]
        numbered = rows + count * np.arange(number)[:, None]
        times = np.bincount(numbered.ravel(), minlength=number * count).reshape(number, count)
        yield from times.astype(np.float64) @ each
