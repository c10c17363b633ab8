"""Associative recall: pairs of a key and a value, each one or several symbols, and later keys that ask for values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from attnx.errors import UserError

from .drawn import NOWHERE, Difficulty, Drawn, Integers
from .sampling import different_numbers, draw_distinct, draw_weighted, mix, previous_occurrence


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


@dataclass(frozen=True)
class FuzzyRecall:
    """Recall of keys and values of one to ``motif`` different symbols; blanks come before the first pair.

    Every next symbol is a label; those of the values of keys seen before count. With ``has_longest_keys``, as in tests,
    every key has ``motif`` symbols.

    Source: Poli et al. 2024, section 3.1, https://arxiv.org/abs/2403.17844
    """

    vocabulary: int = 16
    motif: int = 3
    has_longest_keys: bool = False
    metrics: ClassVar = ("distance_accuracy",)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Symbols of keys, of values, and the blank."""
        return (*map(str, range(self.vocabulary)), "_")

    def check(self, setting: Difficulty) -> None:
        """Raise a UserError if the symbols are fewer than a motif has, or two pairs do not fit."""
        if self.vocabulary < 2 * self.motif or setting.length < 4 * self.motif:
            raise UserError(
                f"task.motif={self.motif} needs a vocabulary of {2 * self.motif} or more, half of it for keys, and a "
                f"length of {4 * self.motif} or more, two pairs; found {self.vocabulary} and {setting.length}"
            )

    def draw(self, rng: np.random.Generator, rows: int, setting: Difficulty) -> Drawn:
        """Draw rows; pairs are numbered from the last, 0, at the end, which asks for one of the earlier keys."""
        half, places = self.vocabulary // 2, np.arange(self.motif)
        # A pair has motif + 1 symbols on average; where more pairs than these would fit, there are more blanks.
        count = min(setting.length // 2, setting.length // (self.motif + 1) + math.isqrt(setting.length))
        salts = rng.integers(2**63, size=(rows, 1), dtype=np.uint64)  # of the values of a row
        shortest = self.motif if self.has_longest_keys else 1
        key_sizes = rng.integers(shortest, self.motif + 1, size=(rows, count))
        keys = different_numbers(rng.integers(2**31, size=(rows, count, self.motif), dtype=np.int32), half)
        names = ((keys + 1) * (places < key_sizes[..., None])) @ (half + 1) ** places
        value_sizes, values = self._values(names, salts)

        fits = np.cumsum((key_sizes + value_sizes)[:, 1:], 1) <= setting.length - 2 * self.motif
        asked = 1 + (rng.random(rows) * fits.sum(1)).astype(np.int64)
        for part in (keys, key_sizes, values, value_sizes, names):
            part[:, 0] = part[np.arange(rows), asked]
        starts = setting.length - np.cumsum(key_sizes + value_sizes, 1)
        is_there = np.concatenate([np.ones((rows, 1), bool), fits], 1)
        names = np.where(is_there, names, -1 - np.arange(count))
        earlier = count - 1 - previous_occurrence(names[:, ::-1])[:, ::-1]  # ``count`` without one

        drawn = Drawn.blank(rows, setting.length, self.vocabulary)
        row = np.broadcast_to(np.arange(rows)[:, None, None], keys.shape)
        for motifs, sizes, first in ((keys, key_sizes, starts), (values, value_sizes, starts + key_sizes)):
            positions = first[..., None] + places
            is_symbol = is_there[..., None] & (places < sizes[..., None])
            drawn.inputs[row[is_symbol], positions[is_symbol]] = motifs[is_symbol]
        is_asked = is_symbol & (earlier < count)[..., None]  # of values
        origins = np.take_along_axis(starts, np.minimum(earlier, count - 1), 1) + key_sizes
        answers = (origins[..., None] + places)[is_asked]
        drawn.labels[:, :-1] = np.where(drawn.inputs[:, :-1] == self.vocabulary, NOWHERE, drawn.inputs[:, 1:])
        drawn.scored[row[is_asked], positions[is_asked] - 1] = True
        drawn.origins[row[is_asked], positions[is_asked] - 1] = answers
        return drawn

    def _values(self, names: Integers, salts: npt.NDArray[np.uint64]) -> tuple[Integers, Integers]:
        """The sizes (n, k) and symbols (n, k, motif) of the values of keys (n, k), by a hash with a row's salt."""
        half, places = self.vocabulary // 2, np.arange(self.motif + 1, dtype=np.uint64)
        numbers = (mix(mix(names.astype(np.uint64) + salts)[..., None] + places) >> np.uint64(33)).astype(np.int32)
        sizes = 1 + numbers[..., 0].astype(np.int64) % self.motif
        return sizes, half + different_numbers(numbers[..., 1:], self.vocabulary - half)
