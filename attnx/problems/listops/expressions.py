"""Expressions of lists: how they are drawn, what they are worth, and how long they can be. Without torch."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from statistics import median
from typing import Any, Final, NamedTuple

from attnx.errors import UserError
from attnx.files.parse_number import count_phrase
from attnx.files.printable import quoted

DIGITS: Final = tuple("0123456789")
END: Final = "]"
OPERATORS: Final[Mapping[str, Callable[[list[int]], int]]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(median(values)),
    "[SM": lambda values: sum(values) % 10,
}
NAMES: Final = tuple(OPERATORS)
SYMBOLS: Final = (*DIGITS, *NAMES, END)
# An argument is a list with this probability, unless it would be too deep; else it is a digit.
LIST_SHARE: Final = 0.25
MAX_DRAWS: Final = 200_000  # in a row without a new expression of a fitting length


class Shape(NamedTuple):
    """The expressions that are drawn: how deep, a digit being one deep; the arguments of a list; and the symbols."""

    max_depth: int
    max_args: int
    min_length: int
    max_length: int


def read_shape(options: Mapping[str, Any]) -> Shape:
    """The shape that the options of the task describe; a UserError if no list has it."""
    shape = Shape(*(options[field] for field in Shape._fields))
    if shape.max_args < 2:
        raise UserError(f"task.max_args={shape.max_args}: a list has two arguments or more; use 2 or more")
    if shape.min_length > shape.max_length:
        raise UserError(f"task.min_length={shape.min_length} is above task.max_length={shape.max_length}; lower it")
    longest = 1
    for _ in range(1, shape.max_depth):
        longest = min(2 + shape.max_args * longest, shape.max_length)
    if longest < shape.min_length:
        depth = f"task.max_depth={shape.max_depth} and task.max_args={shape.max_args}"
        raise UserError(f"task.min_length={shape.min_length}: with {depth} the longest has {longest} symbols")
    return shape


def evaluate(symbols: Sequence[str]) -> int:
    """The value of an expression, a digit; a UserError if it is none.

    Formula: ``[SM a b ... ] = (a + b + ...) mod 10``; a median is rounded down.
    Source: Nangia and Bowman 2018, section 2, https://aclanthology.org/N18-4013

    >>> evaluate("[MAX 2 9 [MIN 4 7 ] 0 ]".split())
    9
    """
    lists: list[tuple[str, list[int]]] = [("", [])]  # the open ones, in what is outside of all
    for place, symbol in enumerate(symbols, 1):
        if symbol in OPERATORS:
            lists.append((symbol, []))
        elif symbol in DIGITS:
            lists[-1][1].append(int(symbol))
        elif symbol != END:
            raise UserError(f"symbol {place} is {quoted(symbol)}; expected a digit, {', '.join(OPERATORS)} or {END}")
        else:
            operator, values = lists.pop()
            if not values or not lists:
                problem = f"{operator} without a value" if lists else "of no list"
                raise UserError(f"symbol {place} is the end {END} {problem}")
            lists[-1][1].append(OPERATORS[operator](values))
    if len(lists) > 1 or len(lists[0][1]) != 1:
        open_lists = count_phrase(len(lists) - 1, "list")
        problem = f"{open_lists} without an end {END}" if len(lists) > 1 else "is not one digit or one list"
        raise UserError(f"{quoted(' '.join(symbols))}: {problem}")
    return lists[0][1][0]


def draw_expressions(shape: Shape, seed: int) -> Iterator[tuple[str, ...]]:
    """Draw different expressions without end; a UserError once nearly all of the shape have been drawn."""
    rng, drawn, misses = random.Random(seed), set[bytes](), 0
    while misses < MAX_DRAWS:
        misses += 1
        symbols: list[str] = []
        _draw(rng.random, shape, 1, symbols)
        if shape.min_length <= len(symbols) <= shape.max_length:
            key = blake2b("".join(symbols).encode(), digest_size=8).digest()
            if key not in drawn:
                drawn.add(key)
                misses = 0
                yield tuple(symbols)
    raise UserError(
        f"only {len(drawn):,} different expressions of {shape.min_length} to {shape.max_length} symbols were found; "
        "lower task.examples, or raise task.max_depth, task.max_args or task.max_length"
    )


def _draw(draw: Callable[[], float], shape: Shape, depth: int, symbols: list[str]) -> None:
    """Append a random expression; one that is too long is broken off."""
    if depth == shape.max_depth or draw() > LIST_SHARE:
        symbols.append(DIGITS[int(draw() * len(DIGITS))])
        return
    symbols.append(NAMES[int(draw() * len(NAMES))])
    for _ in range(2 + int(draw() * (shape.max_args - 1))):
        if len(symbols) > shape.max_length:
            return
        _draw(draw, shape, depth + 1, symbols)
    symbols.append(END)
