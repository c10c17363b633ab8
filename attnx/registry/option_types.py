"""The types of options, and how values are checked against them, without importing a part."""

from __future__ import annotations

import ast
import copy
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any


@dataclass(frozen=True)
class OptionType:
    """A type of options: its description, a test for values, and what a part gets of one that passes."""

    phrase: str
    accepts: Callable[[Any], bool]
    convert: Callable[[Any], Any] = copy.deepcopy  # so that changing a list does not change the default
    choices: tuple[Any, ...] = ()  # the values that a ``bool`` or a ``Literal`` lists


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63  # fits a tensor and a file


def _is_part_spec(value: Any) -> bool:
    match value:
        case (name, options) if isinstance(value, tuple):
            return isinstance(name, str) and isinstance(options, Mapping)
        case Mapping():
            return isinstance(value.get("name"), str)
    return isinstance(value, str)


def seconds(value: Any) -> float | None:
    """The seconds of ``HH:MM:SS``; None for another form or zero."""
    match = re.fullmatch(r"(\d{1,9}):([0-5]\d):([0-5]\d)", value) if isinstance(value, str) else None
    if match is None:
        return None
    hours, minutes, secs = map(int, match.groups())
    return float(3600 * hours + 60 * minutes + secs) or None


def _whole(low: int, high: int | None = None) -> OptionType:
    """The type of whole numbers from ``low``, up to ``high`` if there is one."""
    phrase = f"a whole number, {low} or more" if high is None else f"a whole number from {low} to {high:,}"
    return OptionType(phrase, lambda value: _is_whole(value) and low <= value and (high is None or value <= high))


def _number(phrase: str, is_in_range: Callable[[Any], bool]) -> OptionType:
    """The type of finite numbers in a range; a whole one becomes a float, of which torch makes a tensor of floats."""

    def accepts(value: Any) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and abs(value) <= sys.float_info.max and is_in_range(value)

    return OptionType(phrase, accepts, float)


Size = Annotated[int, "a width the model supplies; never configured"]
NonNegativeInt = Annotated[int, _whole(0)]
PositiveInt = Annotated[int, _whole(1)]
Width = Annotated[int, _whole(1, 2**16)]  # of a vector: a square matrix of it has 16 GiB
Depth = Annotated[int, _whole(1, 2**10)]  # layers, heads or hops, each of which takes time to build
StepCount = Annotated[int, _whole(0, 2**16)]  # of an output, beyond what its source asks for
LengthRatio = Annotated[float, _number("a number above 0, up to 1,024", lambda value: 0 < value <= 1024)]
Probability = Annotated[float, _number("a number from 0 up to, not including, 1", lambda value: 0 <= value < 1)]
PositiveFloat = Annotated[float, _number("a number above 0", lambda value: value > 0)]
NonNegativeFloat = Annotated[float, _number("a number, 0 or more", lambda value: value >= 0)]
Time = Annotated[
    str, OptionType("a time above zero as HH:MM:SS, such as 00:04:00", lambda value: seconds(value) is not None)
]
PartSpec = Annotated[
    str | tuple[str, Mapping[str, Any]] | Mapping[str, Any],
    OptionType("a part's name, or {name: ..., and its options}", _is_part_spec),
]

ALIASES: dict[str, Any] = {
    "NonNegativeInt": NonNegativeInt,
    "PositiveInt": PositiveInt,
    "Width": Width,
    "Depth": Depth,
    "StepCount": StepCount,
    "LengthRatio": LengthRatio,
    "Probability": Probability,
    "PositiveFloat": PositiveFloat,
    "NonNegativeFloat": NonNegativeFloat,
    "Time": Time,
    "PartSpec": PartSpec,
}
"""The types of options that have names of their own."""
_PLAIN: dict[str, OptionType] = {
    "int": OptionType("a whole number", _is_whole),
    "float": _number("a number", lambda value: True),
    "str": OptionType("a word", lambda value: isinstance(value, str)),
    "bool": OptionType("true or false", lambda value: isinstance(value, bool), choices=(False, True)),
    **{name: alias.__metadata__[0] for name, alias in ALIASES.items()},
    "None": OptionType("null", lambda value: value is None),
}


def parse_type(node: ast.expr) -> OptionType:
    """Read the type of an option from its annotation.

    Known are ``int float str bool``, the names of ``ALIASES``, ``Literal[...]``, ``Sequence[T]``, ``list[T]`` and
    ``T | None``.

    Raises:
        ValueError: the annotation is none of these.
    """
    match node:
        case ast.Constant(value=None):
            return _PLAIN["None"]
        case ast.Name(id=name) if name in _PLAIN:
            return _PLAIN[name]
        case ast.BinOp(left=first, op=ast.BitOr(), right=second):
            types = parse_type(first), parse_type(second)
            phrase = f"{types[0].phrase} or {types[1].phrase}"
            return OptionType(
                phrase,
                lambda value: any(option_type.accepts(value) for option_type in types),
                lambda value: next(option_type for option_type in types if option_type.accepts(value)).convert(value),
                types[0].choices + types[1].choices,
            )
        case ast.Subscript(value=ast.Name(id="Literal"), slice=literal):
            try:
                choices = ast.literal_eval(literal)
            except (ValueError, TypeError):
                raise ValueError(
                    f"Literal[{ast.unparse(literal)}] takes words and numbers as they are written"
                ) from None
            choices = choices if isinstance(choices, tuple) else (choices,)
            allowed = [(type(choice), choice) for choice in choices]
            phrase = f"{'one of ' if len(choices) > 1 else ''}{', '.join(map(str, choices))}"
            return OptionType(phrase, lambda value: (type(value), value) in allowed, choices=choices)
        case ast.Subscript(value=ast.Name(id="list" | "Sequence"), slice=item):
            item_type = parse_type(item)
            return OptionType(
                f"a list [...] that is not empty, each {item_type.phrase}",
                lambda value: isinstance(value, list) and bool(value) and all(map(item_type.accepts, value)),
                lambda value: [*map(item_type.convert, value)],
            )
    raise ValueError(
        f"an option cannot have the type {ast.unparse(node)}; use "
        f"{', '.join(name for name in _PLAIN if name != 'None')}, Literal[...], Sequence[...], list[...] or ... | None"
    )
