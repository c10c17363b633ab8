"""Which kind of target a task has, from its knobs and what its data are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnx.nn.targets.contract import TargetSpec
from attnx.nn.targets.forecast import Horizon, ordered
from attnx.nn.targets.numbers import Numbers
from attnx.nn.targets.symbols import Symbols


def target_side(task: Mapping[str, Any], symbols: int, features: int) -> TargetSpec:
    """What a step of the target is.

    Args:
        task: the task's knobs; a ``horizon`` is how many steps every target has.
        symbols: how many symbols there are; 0 where targets are numbers.
        features: how many numbers a step has; 0 where targets are symbols.
    """
    if not features:
        return Symbols(symbols)
    if not task.get("horizon"):
        return Numbers(features)
    return Horizon(
        features,
        task["horizon"],
        quantiles=ordered(task["quantiles"] or []),
        recursive=task["forecast"] == "recursive",
        from_last=bool(task.get("from_last")),
    )
