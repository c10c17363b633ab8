"""Build the specifications of steps of sources and targets from the task's options and the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnx import registry
from attnx.nn.contracts import TargetSpec
from attnx.nn.targets.numbers import Numbers
from attnx.nn.targets.symbols import Symbols


def step_spec(symbols: int, features: int) -> Symbols | Numbers:
    """What a step is: a symbol of a vocabulary of this size, or a row of so many numbers."""
    return Numbers(features) if features else Symbols(symbols)


def build_target(task: Mapping[str, Any], symbols: int, features: int) -> TargetSpec:
    """Build the specification of one target step, as the task says; symbols or rows of numbers without a task.

    ``symbols`` is the size of the target vocabulary, or ``features`` how many numbers a step has; the other is 0.
    """
    if not task:
        return step_spec(symbols, features)
    task_class: Any = registry.find("task", task["name"])
    target: TargetSpec = task_class.build_target(task, symbols, features)
    return target
