"""Build the specifications of steps of sources and targets from the task's options and the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnx.nn.contracts import TargetSpec
from attnx.nn.targets.forecast import ForecastTarget, median_first
from attnx.nn.targets.numbers import Numbers
from attnx.nn.targets.symbols import Symbols


def source_spec(symbols: int, features: int) -> Symbols | Numbers:
    """What a source step is: a symbol of a vocabulary of this size, or a row of so many numbers."""
    return Numbers(features) if features else Symbols(symbols)


def build_target(task: Mapping[str, Any], symbols: int, features: int) -> TargetSpec:
    """Build the specification of one target step.

    Args:
        task: the task's options; ``horizon`` is the number of steps of every target.
        symbols: size of the target vocabulary; 0 if targets are numbers.
        features: numbers per target step; 0 if targets are symbols.
    """
    if not features or not task.get("horizon"):
        return source_spec(symbols, features)
    return ForecastTarget(
        features,
        task["horizon"],
        quantiles=median_first(task["quantiles"] or []),
        recursive=task["forecast"] == "recursive",
        subtracts_last=bool(task.get("subtract_last_value")),
    )
