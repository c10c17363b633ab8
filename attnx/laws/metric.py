"""The laws of every metric."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor
from torchmetrics import Metric

from attnx.laws.candidate import Candidate, LawSkipped
from attnx.laws.violation import described, require

# Batches of predictions with references: symbols, numbers and texts.
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


def build(metric: Candidate) -> Any:
    """A new metric."""
    if metric.info.injected_params:
        raise LawSkipped(f"its task supplies {', '.join(metric.info.injected_params)}")
    return metric.build()


def batch_for(metric: Candidate) -> Batch:
    """The first batch that the metric accepts."""
    for batch in (SYMBOLS, TEXTS, NUMBERS):
        try:
            build(metric).update(*batch)
        except LawSkipped:
            raise
        except Exception:
            continue
        return batch
    raise LawSkipped("it accepts neither symbols, nor texts, nor rows of numbers")


def compute_values(metric: Candidate, *batches: Batch) -> dict[str, float]:
    """The values of a new metric after these batches, by name."""
    part = build(metric)
    for batch in batches:
        part.update(*batch)
    return values(part)


def values(part: Any) -> dict[str, float]:
    """The values of a metric, which computes a scalar or a mapping of scalars."""
    result = part.compute()
    entries = result if isinstance(result, dict) else {"": result}
    for value in entries.values():
        scalar = isinstance(value, float | int) or (isinstance(value, Tensor) and value.numel() == 1)
        require(scalar, "compute", f"it returned {described(value)} instead of a scalar or a mapping of scalars")
    return {name: float(value) for name, value in entries.items()}


def declarations(metric: Candidate) -> None:
    """A metric is a torchmetrics Metric."""
    part = build(metric)
    require(isinstance(part, Metric), "", f"it is {described(part)} instead of a torchmetrics.Metric")


def batching_has_no_effect(metric: Candidate) -> None:
    """The values do not depend on how examples are split into batches, nor on their order."""
    predictions, references = batch_for(metric)
    pieces = [(predictions[:1], references[:1]), (predictions[1:], references[1:])]
    at_once = compute_values(metric, (predictions, references))
    _require_same(at_once, compute_values(metric, *pieces), "in two batches")
    _require_same(at_once, compute_values(metric, *pieces[::-1]), "in another order")


def reset_clears_the_state(metric: Candidate) -> None:
    """After a reset a metric computes what a new one does."""
    batch, part = batch_for(metric), build(metric)
    part.update(*batch)
    part.reset()
    part.update(*(side[:1] for side in batch))
    _require_same(compute_values(metric, (batch[0][:1], batch[1][:1])), values(part), "after a reset")


def _require_same(expected: dict[str, float], actual: dict[str, float], where: str) -> None:
    require(
        actual.keys() == expected.keys(), "compute", f"{where} it computes {sorted(actual)}, not {sorted(expected)}"
    )
    for name, value in expected.items():
        close = bool(np.isclose(actual[name], value, rtol=1e-6, atol=1e-9, equal_nan=True))
        require(close, "compute", f"{where} it computes {actual[name]:.6g} instead of {value:.6g}")


QUICK = (declarations,)
LAWS = (*QUICK, batching_has_no_effect, reset_clears_the_state)
