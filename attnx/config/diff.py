"""What differs between two configurations, key by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

ABSENT = "nothing"
# So many differences are told; more would hide the first.
MOST = 6


class Change(NamedTuple):
    """A key with the value that is held and the one that is asked for."""

    key: str
    held: Any
    asked: Any


def differences(held: Mapping[str, Any], asked: Mapping[str, Any]) -> list[Change]:
    """The keys in which two nested mappings differ.

    >>> differences({"scorer": {"name": "mlp", "depth": 2}}, {"scorer": {"name": "mlp", "depth": 3}})
    [Change(key='scorer.depth', held=2, asked=3)]
    """
    before, after = dict(_flat(held)), dict(_flat(asked))
    keys = [key for key in {**before, **after} if key not in before or key not in after or before[key] != after[key]]
    return [Change(key, before.get(key, ABSENT), after.get(key, ABSENT)) for key in keys]


def told(changes: list[Change]) -> str:
    """Say them in one line."""
    lines = [f"{key}: held {_shown(held)}, asked {_shown(asked)}" for key, held, asked in changes[:MOST]]
    more = len(changes) - MOST
    return "; ".join(lines) + (f"; and {more} more" if more > 0 else "")


def _flat(value: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, item in value.items():
        inside = _flat(item, f"{before}{key}.") if isinstance(item, Mapping) and item else [(f"{before}{key}", item)]
        found += inside
    return found


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
