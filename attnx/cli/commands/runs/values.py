"""What ``attnx runs`` filters and sorts runs by: their options, results, and facts such as the size on disk."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any

from attnx.config.view import dotted_keys, value_text
from attnx.reports.run_filters import is_quantity
from attnx.runs.run import Run

# Keys that are neither results nor configuration.
FACTS: dict[str, Callable[[Run], Any]] = {
    "name": lambda run: run.names,
    "path": lambda run: run.path,
    "status": lambda run: run.status,
    "created": lambda run: run.created,
    "duration": lambda run: run.train_seconds,
    "size": lambda run: run.disk_usage.size,
}


@cache
def options_of(run: Run) -> dict[str, Any]:
    """The configuration of a run by dotted keys."""
    return dotted_keys({key: value for key, value in run.config.items() if key != "name"})


def keys_of(run: Run) -> list[str]:
    """The keys that a run has a value for."""
    return [*FACTS, *([run.monitor] if run.monitor else []), *run.results, *options_of(run)]


def value_of(run: Run, key: str) -> Any:
    """The value of a key; None without one. A run has several names."""
    if key in FACTS:
        return FACTS[key](run)
    if key == run.monitor:
        return run.progress.best
    return run.results.get(key, options_of(run).get(key))


def sort_key(key: str, value: Any) -> tuple[bool, bool, Any]:
    """The order of values: numbers and times, then words, then missing ones.

    >>> sorted([None, "b", 7, "a", 5.0], key=lambda value: sort_key("", value))
    [5.0, 7, 'a', 'b', None]
    """
    value = value.timestamp() if isinstance(value, datetime) else value
    value = value[-1] if key == "name" and isinstance(value, tuple) else value
    if value is None or value != value:
        return True, True, ""
    return (False, False, value) if is_quantity(value) else (False, True, value_text(value))
