"""Associative recall of keys and values that are several symbols long."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from attnx.errors import UserError

from .drawn import NOWHERE, Difficulty, Drawn, Integers
from .sampling import different_numbers, mix, previous_occurrence


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
