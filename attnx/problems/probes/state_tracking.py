"""State tracking: a sum modulo a number, arithmetic, and products of permutations, as sequences are read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from math import factorial
from typing import ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt

from attnx.errors import UserError

from .drawn import Difficulty, Drawn, Integers

OPERATORS: Final = {"none": (), "sum": ("+", "-"), "all": ("+", "-", "*")}
MAX_ELEMENTS: Final = 6
MOVED: Final = {"swaps": 2, "three": 3, "all": MAX_ELEMENTS}


@dataclass(frozen=True)
class ModularCounting:
    """Digits, and at the end their sum modulo a number; or, with operators between them, the result, * before + and -.

    The answer is counted in the length; in its place a question mark is read.

    Source: Grazzi et al. 2025, appendix E.1, https://arxiv.org/abs/2411.12537
    """

    modulus: int = 5
    operators: Literal["none", "sum", "all"] = "all"
    metrics: ClassVar = ("scaled_accuracy",)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Digits, the question mark, and the operators with the sign of equality."""
        operators = OPERATORS[self.operators]
        return (*map(str, range(self.modulus)), "?", *operators, *(("=",) if operators else ()))

    @property
    def chance(self) -> float:
        """Of one digit."""
        return 1 / self.modulus

    def check(self, setting: Difficulty) -> None:
        """Raise a UserError if there is nothing to count, or an expression cannot have the length."""
        if self.modulus < 2:
            raise UserError(f"task.modulus={self.modulus}: there is nothing to count; use 2 or more")
        if setting.length < 2 or (self.operators != "none" and setting.length % 2 == 0):
            needed = "2 or more steps" if self.operators == "none" else "an odd number of steps, 3 or more"
            raise UserError(f"a length of {setting.length}: digits and their result need {needed}")

    def draw(self, rng: np.random.Generator, rows: int, setting: Difficulty) -> Drawn:
        """Draw rows."""
        drawn, end = Drawn.blank(rows, setting.length, self.modulus), setting.length - 1
        if self.operators == "none":
            drawn.inputs[:, :end] = rng.integers(self.modulus, size=(rows, end))
            answers = drawn.inputs[:, :end].sum(1) % self.modulus
        else:
            digits = rng.integers(self.modulus, size=(rows, end // 2))
            operators = rng.integers(len(OPERATORS[self.operators]), size=(rows, end // 2 - 1))
            drawn.inputs[:, : end - 1 : 2] = digits
            drawn.inputs[:, 1 : end - 1 : 2] = self.modulus + 1 + operators
            drawn.inputs[:, end - 1] = len(self.symbols) - 1
            answers = evaluate(digits, operators, self.modulus)
        drawn.put_label(np.full((rows, 1), end), answers[:, None])
        return drawn


def evaluate(digits: Integers, operators: Integers, modulus: int) -> Integers:
    """The results (n,) of digits (n, k) with operators (n, k - 1) between them: 0 is plus, 1 minus, 2 times.

    >>> evaluate(np.array([[2, 3, 4]]), np.array([[0, 2]]), 5).tolist()  # 2 + 3 * 4
    [4]
    """
    total = np.zeros_like(digits[:, 0])
    product = digits[:, 0]
    for digit, operator in zip(digits.T[1:], operators.T, strict=True):
        is_product = operator == 2
        total = np.where(is_product, total, total + product) % modulus
        product = np.where(is_product, product * digit, np.where(operator == 1, -digit, digit)) % modulus
    answers: Integers = (total + product) % modulus
    return answers


@dataclass(frozen=True)
class Permutations:
    """Permutations of a few elements, each step labeled by the product of all up to it.

    ``moves`` says which are drawn: ``all``, those that move at most ``three`` elements, or ``swaps`` and the identity.

    Source: Merrill et al. 2024, section 5, https://arxiv.org/abs/2404.08819; moves: Grazzi et al. 2025, appendix E.2,
        https://arxiv.org/abs/2411.12537
    """

    elements: int = 5
    moves: Literal["all", "three", "swaps"] = "all"
    metrics: ClassVar = ("sequence_accuracy",)

    @cached_property
    def _orders(self) -> Integers:
        """(n!, n) all permutations, the identity first."""
        return np.array(list(permutations(range(self.elements))))

    @cached_property
    def _products(self) -> npt.NDArray[np.int64]:
        """(n!, n!) the permutation that is one after another: ``[second, first]``."""
        orders, places = self._orders, self.elements ** np.arange(self.elements)
        codes = orders @ places
        index = np.argsort(codes)
        products = orders[:, orders] @ places  # (second, first, n): where second takes what first has moved
        return index[np.searchsorted(codes, products, sorter=index)]

    @property
    def symbols(self) -> tuple[str, ...]:
        """Where each permutation takes the elements."""
        return tuple("".join(map(str, order)) for order in self._orders.tolist())

    def check(self, setting: Difficulty) -> None:
        """Raise a UserError if there are too few or too many elements."""
        if not 2 <= self.elements <= MAX_ELEMENTS:
            most = f"{MAX_ELEMENTS}, which have {factorial(MAX_ELEMENTS)} permutations"
            raise UserError(f"task.elements={self.elements}: use 2 to {most}")

    def draw(self, rng: np.random.Generator, rows: int, setting: Difficulty) -> Drawn:
        """Draw rows."""
        moved = (self._orders != np.arange(self.elements)).sum(1)
        drawn = Drawn.blank(rows, setting.length)
        drawn.inputs[:] = rng.choice(np.flatnonzero(moved <= MOVED[self.moves]), size=(rows, setting.length))
        state = np.zeros(rows, dtype=np.int64)
        for position in range(setting.length):
            state = self._products[drawn.inputs[:, position], state]
            drawn.labels[:, position] = state
        drawn.scored[:] = True
        return drawn
