"""Measures that are shares of examples, each of which is right or wrong: what their exact intervals are made from."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable


class Proportion(NamedTuple):
    """How many examples are counted, out of how many."""

    counted: int
    examples: int


@runtime_checkable
class CountsExamples(Protocol):
    """A metric in percent that is a proportion of examples, or a mean of proportions."""

    def proportions(self) -> dict[str, list[Proportion]]:
        """The proportions that each entry of what it computes is the mean of; a scalar's entry is ``""``."""
        ...
