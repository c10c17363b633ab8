"""What differs between two configurations, key by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from attnx.config.view import dotted_keys, value_text

ABSENT = "nothing"
# More differences in a message would hide the first.
MAX_SHOWN = 6


class Change(NamedTuple):
    """A key with its saved and its requested value."""

    key: str
    saved: Any
    requested: Any


def differences(saved: Mapping[str, Any], requested: Mapping[str, Any]) -> list[Change]:
    """The keys in which two configurations differ.

    >>> differences({"scorer": {"name": "mlp", "depth": 2}}, {"scorer": {"name": "mlp", "depth": 3}})
    [Change(key='scorer.depth', saved=2, requested=3)]
    """
    old, new = dotted_keys(saved), dotted_keys(requested)
    pairs = {key: (old.get(key, ABSENT), new.get(key, ABSENT)) for key in {**old, **new}}
    return [Change(key, *values) for key, values in pairs.items() if values[0] != values[1]]


def changes_text(changes: list[Change]) -> str:
    """Changes on one line."""
    shown = [f"{key}: saved {value_text(old)}, requested {value_text(new)}" for key, old, new in changes[:MAX_SHOWN]]
    hidden = len(changes) - MAX_SHOWN
    return "; ".join(shown) + (f"; and {hidden} more" if hidden > 0 else "")
