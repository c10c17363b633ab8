"""The types of knobs, and how values are checked against them, without importing a part."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

Size = Annotated[int, "a width the model supplies; never configured"]
Natural = Annotated[int, "a whole number, 0 or more"]
Positive = Annotated[int, "a whole number, 1 or more"]
Probability = Annotated[float, "a number from 0 up to, not including, 1"]
Rate = Annotated[float, "a number above 0"]
NonNegative = Annotated[float, "a number, 0 or more"]
Time = Annotated[str, "a time above zero, HH:MM:SS"]
PartSpec = Annotated[
    str | tuple[str, Mapping[str, Any]] | Mapping[str, Any],
    "a part: its name, its name and knobs, or a mapping of both",
]


@dataclass(frozen=True)
class KnobType:
    """A type of knobs: its description, and a test for values."""

    phrase: str
    accepts: Callable[[Any], bool]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def seconds(value: Any) -> float | None:
    """The seconds of ``HH:MM:SS``; None for another form or zero."""
    match = re.fullmatch(r"(\d+):([0-5]\d):([0-5]\d)", value) if isinstance(value, str) else None
    if match is None:
        return None
    hours, minutes, secs = map(int, match.groups())
    return float(3600 * hours + 60 * minutes + secs) or None


_PLAIN = {
    "int": KnobType("a whole number", _is_whole),
    "float": KnobType("a number", _is_finite),
    "str": KnobType("a word", lambda value: isinstance(value, str)),
    "bool": KnobType("true or false", lambda value: isinstance(value, bool)),
    "Natural": KnobType("a whole number, 0 or more", lambda value: _is_whole(value) and value >= 0),
    "Positive": KnobType("a whole number, 1 or more", lambda value: _is_whole(value) and value >= 1),
    "Probability": KnobType(
        "a number from 0 up to, not including, 1", lambda value: _is_finite(value) and 0 <= value < 1
    ),
    "Rate": KnobType("a number above 0", lambda value: _is_finite(value) and value > 0),
    "NonNegative": KnobType("a number, 0 or more", lambda value: _is_finite(value) and value >= 0),
    "Time": KnobType("a time above zero as HH:MM:SS, such as 00:04:00", lambda value: seconds(value) is not None),
    "PartSpec": KnobType(
        "a part's name, or {name: ..., and its knobs}",
        lambda value: isinstance(value, str) or (isinstance(value, dict) and isinstance(value.get("name"), str)),
    ),
    "None": KnobType("null", lambda value: value is None),
}


def parse_type(node: ast.expr) -> KnobType:
    """Read the type of a knob from its annotation.

    Known are ``int float str bool Natural Positive Probability Rate NonNegative Time PartSpec``, ``Literal[...]``,
    ``list[T]`` and ``T | None``.

    Raises:
        ValueError: the annotation is none of these.
    """
    match node:
        case ast.Constant(value=None):
            return _PLAIN["None"]
        case ast.Name(id=name) if name in _PLAIN:
            return _PLAIN[name]
        case ast.BinOp(left=first, op=ast.BitOr(), right=second):
            return _union_type(parse_type(first), parse_type(second))
        case ast.Subscript(value=ast.Name(id="Literal"), slice=choices):
            return _literal_type(ast.literal_eval(choices))
        case ast.Subscript(value=ast.Name(id="list"), slice=item):
            return _list_type(parse_type(item))
    raise ValueError(
        f"a knob cannot have the type {ast.unparse(node)}; "
        f"use {', '.join(name for name in _PLAIN if name != 'None')}, Literal[...], list[...] or ... | None"
    )


def _union_type(first: KnobType, second: KnobType) -> KnobType:
    return KnobType(f"{first.phrase} or {second.phrase}", lambda value: first.accepts(value) or second.accepts(value))


def _literal_type(choices: Any) -> KnobType:
    allowed = choices if isinstance(choices, tuple) else (choices,)
    return KnobType(
        "one of " + ", ".join(map(str, allowed)),
        lambda value: any(value == choice and type(value) is type(choice) for choice in allowed),
    )


def _list_type(item: KnobType) -> KnobType:
    return KnobType(
        f"a list [...] that is not empty, each {item.phrase}",
        lambda value: isinstance(value, list) and bool(value) and all(item.accepts(entry) for entry in value),
    )
