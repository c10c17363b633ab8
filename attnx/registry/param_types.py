"""The types a knob can have, and how a value is checked against one: plain Python, no part is imported."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

Size = Annotated[int, "a width the model supplies; never configured"]
Natural = Annotated[int, "a whole number, 0 or more"]
Positive = Annotated[int, "a whole number, 1 or more"]
Probability = Annotated[float, "a number from 0 up to, not including, 1"]
Rate = Annotated[float, "a number above 0"]
NonNegative = Annotated[float, "a number, 0 or more"]
Time = Annotated[str, "a time above zero, HH:MM:SS"]
Choice = Annotated[Any, "a part: its name, or a mapping with its name and its knobs"]


@dataclass(frozen=True)
class KnobType:
    """What a knob accepts: a phrase for people and a test for values."""

    phrase: str
    accepts: Callable[[Any], bool]


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def seconds(value: Any) -> float | None:
    """Read ``HH:MM:SS``; None if it is not of that form or not above zero."""
    match = re.fullmatch(r"(\d+):([0-5]\d):([0-5]\d)", value) if isinstance(value, str) else None
    if match is None:
        return None
    hours, minutes, rest = map(int, match.groups())
    return float(3600 * hours + 60 * minutes + rest) or None


_PLAIN = {
    "int": KnobType("a whole number", _whole),
    "float": KnobType("a number", _number),
    "str": KnobType("a word", lambda value: isinstance(value, str)),
    "bool": KnobType("true or false", lambda value: isinstance(value, bool)),
    "Natural": KnobType("a whole number, 0 or more", lambda value: _whole(value) and value >= 0),
    "Positive": KnobType("a whole number, 1 or more", lambda value: _whole(value) and value >= 1),
    "Probability": KnobType("a number from 0 up to, not including, 1", lambda value: _number(value) and 0 <= value < 1),
    "Rate": KnobType("a number above 0", lambda value: _number(value) and value > 0),
    "NonNegative": KnobType("a number, 0 or more", lambda value: _number(value) and value >= 0),
    "Time": KnobType("a time above zero as HH:MM:SS, such as 00:04:00", lambda value: seconds(value) is not None),
    "Choice": KnobType(
        "a part's name, or {name: ..., and its knobs}",
        lambda value: isinstance(value, str) or (isinstance(value, dict) and isinstance(value.get("name"), str)),
    ),
    "None": KnobType("null", lambda value: value is None),
}


def parse_type(node: ast.expr) -> KnobType:
    """Read the type of a knob from its annotation.

    Known are ``int float str bool Natural Positive Probability Rate NonNegative Time Choice``, ``Literal[...]``,
    ``list[T]`` and ``T | None``.

    Raises:
        ValueError: the annotation is none of these.
    """
    match node:
        case ast.Constant(value=None):
            return _PLAIN["None"]
        case ast.Name(id=name) if name in _PLAIN:
            return _PLAIN[name]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _either(parse_type(left), parse_type(right))
        case ast.Subscript(value=ast.Name(id="Literal"), slice=choices):
            return _one_of(ast.literal_eval(choices))
        case ast.Subscript(value=ast.Name(id="list"), slice=item):
            return _list_of(parse_type(item))
    raise ValueError(
        f"a knob cannot have the type {ast.unparse(node)}; "
        f"use {', '.join(name for name in _PLAIN if name != 'None')}, Literal[...], list[...] or ... | None"
    )


def _either(left: KnobType, right: KnobType) -> KnobType:
    return KnobType(f"{left.phrase} or {right.phrase}", lambda value: left.accepts(value) or right.accepts(value))


def _one_of(choices: Any) -> KnobType:
    allowed = choices if isinstance(choices, tuple) else (choices,)
    return KnobType(
        "one of " + ", ".join(map(str, allowed)),
        lambda value: any(value == choice and type(value) is type(choice) for choice in allowed),
    )


def _list_of(item: KnobType) -> KnobType:
    return KnobType(
        f"a list [...] that is not empty, each {item.phrase}",
        lambda value: isinstance(value, list) and bool(value) and all(item.accepts(entry) for entry in value),
    )
