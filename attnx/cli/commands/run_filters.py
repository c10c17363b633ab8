"""Chooses runs by words: ``scorer=additive,dot``, ``test_per<10``, ``name=*-full``, ``since=2d``."""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from attnx.errors import UserError, near_misses

WORD = re.compile(r"([A-Za-z_][\w.-]*)(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
ORDERS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
BYTES = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
# Other names of a comparison with the time at which a run began.
TIMES = {"since": ">=", "until": "<"}


class Filter(NamedTuple):
    """A condition on what a run says of a key; any of the values will do, none may for ``!=``."""

    key: str
    sign: str
    values: tuple[str, ...]
    limit: float = 0.0

    def admits(self, value: Any) -> bool:
        """Whether a value meets it; a tuple does if one of its members does, and what is not there only meets ``!=``.

        >>> read_filter("seed=1,2").admits(2), read_filter("test_per<10").admits(None)
        (True, False)
        """
        if self.sign in ORDERS:
            value = value.timestamp() if isinstance(value, datetime) else value
            return _is_number(value) and ORDERS[self.sign](value, self.limit)
        held = value if isinstance(value, tuple) else (value,)
        return any(same(one, asked) for one in held for asked in self.values) != (self.sign == "!=")


def read_filter(word: str, now: float | None = None) -> Filter:
    """Read a word.

    Args:
        word: a key, a sign, and values with commas between.
        now: the time that ``2d`` counts back from; left out, the present.

    Raises:
        UserError: there is no value, or one that is no number where numbers are compared.
    """
    found = WORD.fullmatch(word)
    assert found is not None
    key, sign, text = found.groups()
    if not text:
        raise UserError(f"{word}: needs a value")
    if key in TIMES:
        if sign != "=":
            raise UserError(f"{word}: write {key}=2d, or {key}=2026-01-31")
        key, sign = "begun", TIMES[key]
    if sign not in ORDERS:
        return Filter(key, sign, values(text))
    return Filter(key, sign, (text,), _quantity(key, text, word, time.time() if now is None else now))


def values(text: str) -> tuple[str, ...]:
    """What commas part, except within brackets.

    >>> values("token,[token,last_context]")
    ('token', '[token,last_context]')
    """
    return tuple(part.strip() for part in re.findall(r"(?:\[[^\]]*\]|[^,])+", text))


def same(value: Any, asked: str) -> bool:
    """Whether a value is the one that is asked for: as text, as a number, or by ``*`` and ``?``."""
    if value is None:
        return asked == "null"
    text = written(value)
    if text == asked or fnmatchcase(text, asked.replace("[", "[[]")):
        return True
    return _is_number(value) and (number := _number(asked)) is not None and number == value


def written(value: Any) -> str:
    """A value as it is asked for on a command line."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case datetime():
            return f"{value:%Y-%m-%d %H:%M}"
        case list():
            return f"[{','.join(map(written, value))}]"
        case _:
            return str(value)


def check_keys(keys: Sequence[str], known: Collection[str]) -> None:
    """See that runs can be asked for some keys.

    Raises:
        UserError: none of the runs has one of them; with those that are like it.
    """
    for key in keys:
        if key not in known:
            near = near_misses(key, known)
            near = near if "did you mean" in near else "; attnx runs --csv shows all keys"
            raise UserError(f"no run here has a key {key!r}{near}")


def order(key: str, value: Any) -> tuple[bool, bool, Any]:
    """What a value is sorted by: numbers and times, then words, then what is not there.

    >>> sorted([None, "b", 7, "a", 5.0], key=lambda value: order("", value))
    [5.0, 7, 'a', 'b', None]
    """
    value = value.timestamp() if isinstance(value, datetime) else value
    value = value[-1] if key == "name" and isinstance(value, tuple) else value
    if value is None or value != value:
        return True, True, ""
    return (False, False, value) if _is_number(value) else (False, True, written(value))


def _quantity(key: str, text: str, word: str, now: float) -> float:
    if key == "begun":
        if (back := _span(text)) is not None:
            return now - back
        try:
            return datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError):
            raise UserError(f"{word}: expected a span such as 2d or 12h, or a time such as 2026-01-31") from None
    number = _span(text) if key == "took" else _bytes(text) if key == "size" else _number(text)
    if number is None:
        what = {"took": "a span such as 90s, 5m or 2h", "size": "a size such as 20MB"}.get(key, "a number")
        raise UserError(f"{word}: expected {what}")
    return number


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _span(text: str) -> float | None:
    number = _number(text[:-1])
    return None if number is None or text[-1] not in SPANS else number * SPANS[text[-1]]


def _bytes(text: str) -> float | None:
    found = re.fullmatch(r"([\d.]+) ?([a-zA-Z]*)", text)
    unit = {name.lower(): size for name, size in BYTES.items()}.get(found[2].lower()) if found else None
    number = _number(found[1]) if found else None
    return None if number is None or unit is None else number * unit


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
