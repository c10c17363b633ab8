"""Associative recall: pairs of a key and a value, and later keys whose values are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from attnx.errors import UserError

from .drawn import Drawn, Setting
from .sampling import draw_distinct, draw_weighted


@dataclass(frozen=True)
class Mqar:
    """Multi-query associative recall: N pairs, then each key once more, its value as its label, among fillers.

    Source: Arora et al. 2023, section 3.2 and appendix, https://arxiv.org/abs/2312.04927
    """

    vocabulary: int = 8192
    power: float = 0.01  # slot i after the pairs holds a query with weight i^(power - 1); 1 is uniform
    fillers: Literal["blank", "own", "any"] = "blank"
    filler_symbols: int = 16

    @property
    def symbols(self) -> tuple[str, ...]:
        """The filler 0, keys, values, and the fillers of their own."""
        own = self.filler_symbols if self.fillers == "own" else 0
        return (*map(str, range(self.vocabulary)), *(f"f{index}" for index in range(own)))

    @property
    def chance(self) -> None:
        """Results are not scaled."""

    def check(self, setting: Setting) -> None:
        """Raise a UserError if the pairs do not fit the length, or the length the vocabulary."""
        length, pairs = setting
        if length % 2 or 4 * pairs > length:
            even = "" if length % 2 == 0 else ", which is even"
            raise UserError(
                f"task.pairs={pairs} and task.length={length}: {pairs} pairs and their queries need a length of "
                f"{4 * pairs} or more{even}; use fewer pairs, or a longer one"
            )
        if self.vocabulary <= length or self.vocabulary % 2:
            raise UserError(
                f"task.vocabulary={self.vocabulary} must be even and more than the length {length}; half of it are "
                "keys, the other half values"
            )

    def draw(self, rng: np.random.Generator, rows: int, setting: Setting) -> Drawn:
        """Draw rows."""
        (length, pairs), half = setting, self.vocabulary // 2
        drawn = Drawn.blank(rows, length)
        keys = 1 + draw_distinct(rng, rows, pairs, half - 1)
        values = half + draw_distinct(rng, rows, pairs, half)
        drawn.inputs[:, : 2 * pairs : 2], drawn.inputs[:, 1 : 2 * pairs : 2] = keys, values
        slots = np.arange(1, (length - 2 * pairs) // 2 + 1)
        queries = 2 * pairs + 2 * draw_weighted(rng, rows, pairs, (self.power - 1) * np.log(slots))
        np.put_along_axis(drawn.inputs, queries, keys, 1)
        drawn.put_label(queries, values, 1 + 2 * np.arange(pairs))
        if self.fillers != "blank":
            is_filler = drawn.inputs == 0
            first, end = (0, self.vocabulary) if self.fillers == "any" else (self.vocabulary, len(self.symbols))
            drawn.inputs[is_filler] = rng.integers(first, end, size=int(is_filler.sum()))
        return drawn
