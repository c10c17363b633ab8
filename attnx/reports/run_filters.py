"""Filters and sorts runs by words: ``scorer=additive,dot``, ``test_per<10``, ``name=*-full``, ``since=2d``."""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, NamedTuple, TypeVar

from attnx.config.view import dotted_keys, value_text
from attnx.errors import UserError, suggest
from attnx.files.parse_number import is_number
from attnx.runs.run import Run

Item = TypeVar("Item")
WORD = re.compile(r"([A-Za-z_][\w.-]*)(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
BYTES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
# Units of the quantities that have some, and examples for messages.
UNITS: dict[str, tuple[Mapping[str, int], str]] = {
    "created": (SECONDS, "a span such as 2d or 12h, or a time such as 2026-01-31"),
    "duration": (SECONDS, "a span such as 90s, 5m or 2h"),
    "size": (BYTES, "a size such as 20MB"),
}
# What a run is filtered and sorted by that is neither a result nor an option.
FACTS: dict[str, Callable[[Run], Any]] = {
    "name": lambda run: run.names,
    "path": lambda run: run.path,
    "status": lambda run: run.status,
    "created": lambda run: run.created,
    "duration": lambda run: run.train_seconds,
    "size": lambda run: run.disk_usage.size,
}
# Short forms of a comparison with the time of creation.
TIME_KEYS = {"since": ">=", "until": "<"}


class Filter(NamedTuple):
    """A condition on the value of a key: one of the values, none of them (``!=``), or a comparison with ``limit``."""

    key: str
    sign: str
    values: tuple[str, ...]
    limit: float = 0.0

    def __str__(self) -> str:
        return f"{self.key}{self.sign}{','.join(self.values)}"

    def admits(self, value: Any) -> bool:
        """Whether a value passes, or one of a tuple; a missing value passes ``!=`` alone.

        >>> parse_filter("seed=1,2").admits(2), parse_filter("test_per<10").admits(None)
        (True, False)
        """
        if self.sign in COMPARISONS:
            value = value.timestamp() if isinstance(value, datetime) else value
            return is_quantity(value) and COMPARISONS[self.sign](value, self.limit)
        values = value if isinstance(value, tuple) else (value,)
        return any(matches(value, text) for value in values for text in self.values) != (self.sign == "!=")


def parse_filter(word: str) -> Filter:
    """Parse a filter: a key, a sign, and values separated by commas; ``2d`` counts back from now.

    Raises:
        UserError: it is no ``KEY=VALUE``, there is no value, or one that is not a number where numbers are compared.
    """
    if (match := WORD.fullmatch(word)) is None:
        raise UserError(f"{word}: expected KEY=VALUE, as in scorer=additive")
    key, sign, text = match.groups()
    if not text:
        raise UserError(f"{word}: needs a value")
    if key in TIME_KEYS:
        if sign != "=":
            raise UserError(f"{word}: write {key}=2d, or {key}=2026-01-31")
        key, sign = "created", TIME_KEYS[key]
    if sign not in COMPARISONS:
        # Commas within brackets separate no values.
        return Filter(key, sign, tuple(part.strip() for part in re.findall(r"(?:\[[^\]]*\]|[^,])+", text)))
    return Filter(key, sign, (text,), _parse_quantity(key, text, word))


def matches(value: Any, text: str) -> bool:
    """Whether a value equals a text, as text or number, or matches its ``*`` and ``?``."""
    if value is None:
        return text == "null"
    shown = value_text(value)
    if shown == text or fnmatchcase(shown, text.replace("[", "[[]")):
        return True
    return is_quantity(value) and is_number(text) and float(text) == value


def check_keys(
    keys: Sequence[str], known_keys: Collection[str], advice: str = "attnx runs --csv shows all keys"
) -> None:
    """Refuse a key that no run has, with similar keys or advice."""
    for key in keys:
        if key not in known_keys:
            hint = suggest(key, known_keys)
            hint = hint if "did you mean" in hint else f"; {advice}"
            raise UserError(f"no run here has a key {key!r}{hint}")


def apply_filters(
    runs: Sequence[Item], filters: Sequence[Filter], value_of: Callable[[Item, str], Any]
) -> tuple[list[Item], str]:
    """The runs that pass all filters, and if there is none, why: the filter, and the values that there are.

    >>> apply_filters(["mlp", "additive"], [parse_filter("scorer=dot")], lambda run, key: run)
    ([], 'scorer=dot of 2 run(s); scorer is additive, mlp')
    """
    for condition in filters:
        values = [value_of(run, condition.key) for run in runs]
        passed = [run for run, value in zip(runs, values, strict=True) if condition.admits(value)]
        if runs and not passed:
            last = (value[-1] if isinstance(value, tuple) else value for value in values if value is not None)
            texts = sorted(set(map(value_text, last)))
            shown = ", ".join(texts[:6]) + (", ..." if len(texts) > 6 else "")
            facts = f"{condition.key} is {shown}" if texts else "none has it"
            return [], f"{condition} of {len(values)} run(s); {facts}"
        runs = passed
    return list(runs), ""


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


def _parse_quantity(key: str, text: str, word: str) -> float:
    """A number in seconds or bytes, or a plain one; of ``created`` a time, before now by a span or by its date."""
    units, phrase = UNITS.get(key, ({"": 1}, "a number"))
    match = re.fullmatch(r"(.*?) ?([a-z]*)", text.lower())
    if match and is_number(match[1]) and match[2] in units:
        number = float(match[1]) * units[match[2]]
        return time.time() - number if key == "created" else number
    if key == "created":
        try:
            return datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError):
            pass
    raise UserError(f"{word}: expected {phrase}")


def is_quantity(value: Any) -> bool:
    """Whether a value is a number, and neither true nor false."""
    return isinstance(value, int | float) and not isinstance(value, bool)
