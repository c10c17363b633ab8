"""The options of probes: which problem, and how difficult. Without torch, so that commands are checked at once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from attnx.errors import UserError
from attnx.files.parse_number import parse_counts

from .copying import Compression, Copying, Induction, Memorization
from .drawn import Difficulty, Problem
from .recall import FuzzyRecall, Mqar, Recall
from .state_tracking import ModularCounting, Permutations


class Design(NamedTuple):
    """A problem, as it is tested too, the settings to train on, taken in turn, and those to test."""

    problem: Problem
    test_problem: Problem
    train: list[Difficulty]
    test: list[Difficulty]


class _Choice(NamedTuple):
    """A problem, its default settings and options, what sets it apart from others of its class, and its test."""

    problem: Any  # a dataclass that keeps :class:`Problem`
    length: int | str
    pairs: int = 0
    defaults: Mapping[str, Any] = MappingProxyType({})
    fixed: Mapping[str, Any] = MappingProxyType({})
    in_test: Mapping[str, Any] = MappingProxyType({})


CHOICES: Final = {
    "mqar": _Choice(Mqar, 64, 4),
    "recall": _Choice(Recall, 128, fixed={"noise": 0.0}),
    "noisy_recall": _Choice(Recall, 128),
    "fuzzy_recall": _Choice(FuzzyRecall, 128, in_test={"has_longest_keys": True}),
    "copying": _Choice(Copying, 120),
    "selective_copying": _Choice(Copying, 256, defaults={"vocabulary": 16, "tokens": 16}, fixed={"spread": True}),
    "compression": _Choice(Compression, 32),
    "memorization": _Choice(Memorization, 32),
    "induction": _Choice(Induction, 256),
    "parity": _Choice(ModularCounting, "3-40", fixed={"modulus": 2, "operators": "none"}),
    "modular_counting": _Choice(ModularCounting, "3-40"),
    "permutations": _Choice(Permutations, 32),
}


def read_design(options: Mapping[str, Any]) -> Design:
    """Build the problem of the task's options; a UserError if no rows can be drawn by them."""
    choice = CHOICES[options["problem"]]
    given = {field.name: options.get(field.name) for field in fields(choice.problem)}
    set_options = {name: value for name, value in given.items() if value is not None}
    problem = choice.problem(**{**choice.defaults, **set_options, **choice.fixed})
    length = choice.length if options["length"] is None else options["length"]
    pairs = choice.pairs and (options["pairs"] or choice.pairs)
    train = _read_settings("length", length, pairs, problem)
    test = train if options["test"] is None else _read_settings("test", options["test"], pairs, problem)
    return Design(problem, replace(problem, **choice.in_test), train, test)


def _read_settings(option: str, value: int | str | list[int | str], pairs: int, problem: Problem) -> list[Difficulty]:
    """The settings that ``length`` or ``test`` names: lengths and ranges of them, each with its pairs as in 64x4.

    A range is of the lengths that the problem can have.
    """
    settings: list[Difficulty] = []
    for item in value if isinstance(value, list) else [value]:
        lengths, mark, number = str(item).partition("x")
        if mark and not pairs:
            raise UserError(f"task.{option}={item}: this problem has no pairs; write the length alone")
        try:
            count = parse_counts(option, number, "pairs")[0] if mark else pairs
            named = [Difficulty(length, count) for length in parse_counts(option, lengths, "steps")]
        except UserError:
            expected = (
                "a length up to 999,999, a range such as 3-40, one with its pairs such as 64x4, or a list of these"
            )
            raise UserError(f"task.{option}={item!s:.80}: expected {expected}") from None
        fitting = []
        for setting in named:
            with suppress(UserError):
                problem.check(setting)
                fitting.append(setting)
        if not fitting:
            problem.check(named[0])  # raises
        settings += fitting
    return settings
