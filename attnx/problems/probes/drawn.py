"""What a problem draws: rows of symbols with labels at some of their steps."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]

NOWHERE = -1
"""In place of a label, where a step has none, and of the position of an answer that stands nowhere."""


class Difficulty(NamedTuple):
    """How difficult a row is: its length, and the number of things to hold; 0 where the length determines that."""

    length: int
    pairs: int = 0

    def __str__(self) -> str:
        return f"{self.length}x{self.pairs}" if self.pairs else str(self.length)


class Drawn(NamedTuple):
    """Rows (n, t) of one setting; symbols count from 0."""

    inputs: Integers
    labels: Integers  # of each step, ``NOWHERE`` without one
    origins: Integers  # the position that holds the answer of a label, ``NOWHERE`` if none does
    scored: npt.NDArray[np.bool_]  # which labels count in validation and test; all labels may count in training

    @classmethod
    def blank(cls, rows: int, length: int, symbol: int = 0) -> Drawn:
        """Rows of one symbol without labels, to be filled."""
        shape = (rows, length)
        return cls(np.full(shape, symbol), np.full(shape, NOWHERE), np.full(shape, NOWHERE), np.zeros(shape, bool))

    def rows(self, chosen: npt.NDArray[np.bool_] | slice) -> Drawn:
        """Some of the rows."""
        return Drawn(self.inputs[chosen], self.labels[chosen], self.origins[chosen], self.scored[chosen])

    def put_label(self, positions: Integers, labels: Integers, origins: Integers | int = NOWHERE) -> None:
        """Label these positions (n, k) of each row; all of these labels count."""
        rows = np.arange(len(self.inputs))[:, None]
        self.labels[rows, positions], self.origins[rows, positions] = labels, origins
        self.scored[rows, positions] = True


class Problem(Protocol):
    """A family of sequences; its fields are the options that all of its settings share."""

    metrics: ClassVar[tuple[str, ...]]  # what is measured besides the accuracy of labels

    @property
    def symbols(self) -> tuple[str, ...]:
        """The name of each symbol."""

    def check(self, setting: Difficulty) -> None:
        """Raise a UserError if no row has this setting."""

    def draw(self, rng: np.random.Generator, rows: int, setting: Difficulty) -> Drawn:
        """Draw rows."""
