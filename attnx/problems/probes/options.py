"""The options of probes: which problem, and how difficult. Without torch, so that commands are checked at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, NamedTuple

from attnx.data.counts import parse_counts
from attnx.errors import UserError

from .drawn import Problem, Setting
from .recall import Mqar


class Design(NamedTuple):
    """A problem, the settings to train on, taken in turn, and those to test."""

    problem: Problem
    train: list[Setting]
    test: list[Setting]


class _Choice(NamedTuple):
    """A problem, and its default settings."""

    problem: Any  # a dataclass that keeps :class:`Problem`
    length: int | str
    pairs: int = 0


CHOICES: Final = {"mqar": _Choice(Mqar, 64, 4)}


def check_options(options: Mapping[str, Any]) -> None:
    """Raise a UserError if no rows can be drawn by these options."""
    read_design(options)


def read_design(options: Mapping[str, Any]) -> Design:
    """Build the problem of the task's options; a UserError if no rows can be drawn by them."""
    choice = CHOICES[options["problem"]]
    given = {field.name: options[field.name] for field in fields(choice.problem)}
    problem = choice.problem(**{name: value for name, value in given.items() if value is not None})
    length = choice.length if options["length"] is None else options["length"]
    pairs = choice.pairs if options["pairs"] is None else options["pairs"]
    train = _read_settings("length", length, pairs)
    test = train if options["test"] is None else _read_settings("test", options["test"], pairs)
    for setting in dict.fromkeys([*train, *test]):
        problem.check(setting)
    return Design(problem, train, test)


def _read_settings(option: str, value: int | str | list[int | str], pairs: int) -> list[Setting]:
    """The settings that ``length`` or ``test`` names: lengths and ranges of them, each with its pairs as in 64x4."""
    settings = []
    for item in value if isinstance(value, list) else [value]:
        lengths, mark, number = str(item).partition("x")
        if mark and not pairs:
            raise UserError(f"task.{option}={item}: this problem has no pairs; write the length alone")
        try:
            count = parse_counts(option, number, "pairs")[0] if mark else pairs
            settings += [Setting(length, count) for length in parse_counts(option, lengths, "steps")]
        except UserError:
            expected = (
                "a length up to 999,999, a range such as 3-40, one with its pairs such as 64x4, or a list of these"
            )
            raise UserError(f"task.{option}={item!s:.80}: expected {expected}") from None
    return settings
