"""The laws of every metric."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor
from torchmetrics import Metric

from attnx.laws.candidate import Candidate, NotTried
from attnx.laws.violation import described, require

# What a batch of a metric can be made of: predictions, each with its references.
SYMBOLS = (
    [["K", "AE"], ["D", "AO", "G"], ["B"], ["S", "IH", "T"]],
    [[["K", "AE", "T"]], [["D", "AO", "G"], ["D", "AA", "G"]], [["B", "IY"]], [["S", "AE", "T"]]],
)
NUMBERS = (
    [np.array([[1.0, 5.0], [2.0, 3.0]]), np.array([[4.0, 0.0]]), np.array([[2.0, 2.0]]), np.array([[0.0, 7.0]])],
    [np.array([[2.0, 2.0], [2.0, 1.0]]), np.array([[3.0, 0.5]]), np.array([[2.0, 2.5]]), np.array([[1.0, 6.0]])],
)
TEXTS = (["the cat sat", "a hat"], [["the cat sits", "a cat sat"], ["the hat"]])
Batch = tuple[list[Any], list[Any]]


def built(metric: Candidate) -> Any:
    """A fresh one."""
    if metric.info.supplied:
        raise NotTried(f"its task supplies {', '.join(metric.info.supplied)}")
    return metric.build()


def batch_for(metric: Candidate) -> Batch:
    """Examples that it can be shown: outputs of symbols, of texts, or of numbers."""
    for batch in (SYMBOLS, TEXTS, NUMBERS):
        try:
            built(metric).update(*batch)
        except NotTried:
            raise
        except Exception:
            continue
        return batch
    raise NotTried("it judges neither symbols, nor texts, nor rows of numbers")


def measured(metric: Candidate, *batches: Batch) -> dict[str, float]:
    """What a fresh one measures of some batches, by the name of each entry."""
    part = built(metric)
    for batch in batches:
        part.update(*batch)
    return values(part)


def values(part: Any) -> dict[str, float]:
    """What a metric has measured: a scalar, or a mapping of them."""
    found = part.compute()
    entries = found if isinstance(found, dict) else {"": found}
    for value in entries.values():
        scalar = isinstance(value, float | int) or (isinstance(value, Tensor) and value.numel() == 1)
        require(scalar, "compute", f"it returned {described(value)} instead of a scalar, or a mapping of them")
    return {name: float(value) for name, value in entries.items()}


def declarations(metric: Candidate) -> None:
    """A metric is a torchmetrics Metric."""
    part = built(metric)
    require(isinstance(part, Metric), "", f"it is {described(part)} instead of a torchmetrics.Metric")


def batches_change_nothing(metric: Candidate) -> None:
    """Examples are measured alike in one batch, in several, and in another order."""
    predictions, references = batch_for(metric)
    pieces = [(predictions[:1], references[:1]), (predictions[1:], references[1:])]
    whole = measured(metric, (predictions, references))
    _require_same(whole, measured(metric, *pieces), "in two batches")
    _require_same(whole, measured(metric, *pieces[::-1]), "in another order")


def reset_forgets(metric: Candidate) -> None:
    """After a reset a metric measures as a fresh one does."""
    batch, part = batch_for(metric), built(metric)
    part.update(*batch)
    part.reset()
    part.update(*(side[:1] for side in batch))
    _require_same(measured(metric, (batch[0][:1], batch[1][:1])), values(part), "after a reset")


def _require_same(expected: dict[str, float], found: dict[str, float], where: str) -> None:
    require(found.keys() == expected.keys(), "compute", f"{where} it measures {sorted(found)}, not {sorted(expected)}")
    for name, value in expected.items():
        close = bool(np.isclose(found[name], value, rtol=1e-6, atol=1e-9, equal_nan=True))
        require(close, "compute", f"{where} it measures {found[name]:.6g} instead of {value:.6g}")


QUICK = (declarations,)
LAWS = (*QUICK, batches_change_nothing, reset_forgets)
