"""The values of an option that an animation shows: all of a choice, of a number a grid around its default."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

from attnx.registry.part import Option

MULTIPLES = (0.1, 0.2, 0.5, 1, 2, 5, 10)  # of the default of a number above 0
WIDTH_MULTIPLES = (1 / 16, 1 / 4, 1, 4)  # of the default of a whole number that is not small
MAX_SMALL_WHOLE, REACH = 5, 4  # whole numbers up to 5 move in steps of 1, by 4 to both sides
STEPS, MAX_STEPS, MIN_VALUES = (1, 0.5, 0.1, 0.05, 0.01), 5, 6  # of numbers that are not only above 0


def option_values(option: Option, is_accepted: Callable[[Any], bool]) -> list[Any]:
    """The values of an option, numbers in rising order; its default is among them.

    Args:
        option: the option; its default is where its grid is centered.
        is_accepted: whether a part takes a number.
    """
    values = choices(option)
    is_number = isinstance(option.default, int | float) and not isinstance(option.default, bool)
    if is_number and values in ([], [None]):
        numbers = {value for value in _numbers(option, is_accepted) if is_accepted(value)}
        return [*values, *sorted({*numbers, option.default})]
    return values if option.default in values else [option.default, *values]


def choices(option: Option) -> list[Any]:
    """All values of an option that its type lists: of a bool, of Literals, of lists of these, and None; else none."""
    return _choices(ast.parse(option.annotation, mode="eval").body)


def _choices(node: ast.expr) -> list[Any]:
    """The values of a bool, of a Literal, of a list of Literals (as sets), and of a union of these; else none."""
    match node:
        case ast.Name(id="bool"):
            return [False, True]
        case ast.Constant(value=None):
            return [None]
        case ast.BinOp(left=first, op=ast.BitOr(), right=second):
            return [*_choices(first), *_choices(second)]
        case ast.Subscript(value=ast.Name(id="Literal"), slice=literal):
            values = ast.literal_eval(literal)
            return list(values) if isinstance(values, tuple) else [values]
        case ast.Subscript(value=ast.Name(id="list" | "Sequence"), slice=item):
            values = _choices(item)
            return [list(subset) for size in range(1, len(values) + 1) for subset in combinations(values, size)]
    return []


def _numbers(option: Option, is_accepted: Callable[[Any], bool]) -> list[float]:
    """Candidates for the values of a number."""
    accepts, default = option.type.accepts, option.default
    if not accepts(0.5):
        if abs(default) > MAX_SMALL_WHOLE:
            return [round(default * multiple) for multiple in WIDTH_MULTIPLES]
        return list(range(default - REACH, default + REACH + 1))
    if default > 0 and not accepts(-default) and accepts(MULTIPLES[-1] * default):
        return [0.0, *(float(f"{default * multiple:.6g}") for multiple in MULTIPLES)]
    return _even_numbers(default, is_accepted)


def _even_numbers(center: float, is_accepted: Callable[[Any], bool]) -> list[float]:
    """Numbers in even steps, the widest of which at least six are accepted."""
    unit = 10.0 ** math.floor(math.log10(abs(center))) if center else 1.0
    values: list[float] = []
    for step in STEPS:
        units = (round(center / unit + index * step, 6) for index in range(-MAX_STEPS, MAX_STEPS + 1))
        values = [value for count in units if is_accepted(value := float(f"{count * unit:.6g}"))]
        if len(values) >= MIN_VALUES:
            break
    return values
