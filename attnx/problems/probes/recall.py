"""Associative recall: pairs of a key and a value, and later keys whose values are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from attnx.errors import UserError

from .drawn import NOWHERE, Difficulty, Drawn
from .sampling import draw_distinct, draw_weighted, previous_occurrence


@dataclass(frozen=True)
class Mqar:
    """Multi-query associative recall: N pairs, then each key once more, its value as its label, among fillers.

    Source: Arora et al. 2023, section 3.2 and appendix, https://arxiv.org/abs/2312.04927
    """

    vocabulary: int = 8192
    power: float = 0.01  # slot i after the pairs holds a query with weight i^(power - 1); 1 is uniform
    fillers: Literal["blank", "own", "any"] = "blank"
    filler_symbols: int = 16
    metrics: ClassVar = ("distance_accuracy",)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The filler 0, keys, values, and the fillers of their own."""
        own = self.filler_symbols if self.fillers == "own" else 0
        return (*map(str, range(self.vocabulary)), *(f"f{index}" for index in range(own)))

    def check(self, setting: Difficulty) -> None:
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

    def draw(self, rng: np.random.Generator, rows: int, setting: Difficulty) -> Drawn:
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


@dataclass(frozen=True)
class Recall:
    """In-context recall: pairs of a key and the value that it has in this sequence; the last key was seen before.

    Keys are drawn with replacement. With probability ``noise`` a pair is two noise symbols instead. Every next symbol
    is a label; the values of keys seen before count.

    Source: Poli et al. 2024, section 3.1, https://arxiv.org/abs/2403.17844
    """

    vocabulary: int = 16
    noise: float = 0.2
    filler_symbols: int = 16
    metrics: ClassVar = ("distance_accuracy",)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Keys, values, and noise."""
        noise = self.filler_symbols if self.noise else 0
        return (*map(str, range(self.vocabulary)), *(f"n{index}" for index in range(noise)))

    def check(self, setting: Difficulty) -> None:
        """Raise a UserError if the length is odd or has no two pairs, or there are not two keys."""
        if setting.length % 2 or setting.length < 4 or self.vocabulary < 4:
            raise UserError(
                f"task.vocabulary={self.vocabulary} and a length of {setting.length}: pairs need an even length, and "
                "4 or more of each"
            )

    def draw(self, rng: np.random.Generator, rows: int, setting: Difficulty) -> Drawn:
        """Draw rows."""
        count, half = setting.length // 2, self.vocabulary // 2
        drawn = Drawn.blank(rows, setting.length)
        keys = rng.integers(half, size=(rows, count))
        is_noise = rng.random((rows, count)) < self.noise
        is_noise[:, [0, -1]] = False
        asked = np.where(is_noise[:, :-1], -1.0, rng.random((rows, count - 1))).argmax(1)[:, None]
        keys[:, -1:] = np.take_along_axis(keys, asked, 1)
        values = half + rng.integers(self.vocabulary - half, size=(rows, half))
        drawn.inputs[:, ::2], drawn.inputs[:, 1::2] = keys, np.take_along_axis(values, keys, 1)
        if self.noise:
            is_noise_step = is_noise.repeat(2, 1)
            noise = rng.integers(self.filler_symbols, size=int(is_noise_step.sum()))
            drawn.inputs[is_noise_step] = self.vocabulary + noise
        drawn.labels[:, :-1] = drawn.inputs[:, 1:]
        earlier = previous_occurrence(np.where(is_noise, -1 - np.arange(count), keys))
        drawn.scored[:, ::2] = earlier >= 0
        drawn.origins[:, ::2] = np.where(earlier >= 0, 2 * earlier + 1, NOWHERE)
        return drawn
