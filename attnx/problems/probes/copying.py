"""Copying: symbols that are written again after a signal, in their order, from memory or from one state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attnx.errors import UserError

from .drawn import Difficulty, Drawn
from .sampling import draw_distinct


@dataclass(frozen=True)
class Copying:
    """``tokens`` symbols among blanks, a signal, and as many blanks, which are labeled by the symbols in their order.

    The symbols come first, or where they are ``spread`` anywhere before the signal.

    Source: Arjovsky et al. 2016, section 4.1, https://arxiv.org/abs/1511.06464; spread: Gu and Dao 2023, section 4.1,
        https://arxiv.org/abs/2312.00752
    """

    vocabulary: int = 10
    tokens: int = 10
    spread: bool = False
    metrics: ClassVar = ("sequence_accuracy", "distance_accuracy")

    @property
    def symbols(self) -> tuple[str, ...]:
        """What is copied, the blank and the signal."""
        return (*map(str, range(self.vocabulary - 2)), "_", "copy")

    def check(self, setting: Difficulty) -> None:
        """Raise a UserError if the symbols do not fit the length, or there are none."""
        if self.vocabulary < 3:
            raise UserError(f"task.vocabulary={self.vocabulary} has the blank and the signal; use 3 or more")
        if setting.length < 2 * self.tokens + 1:
            raise UserError(
                f"task.tokens={self.tokens} need a length of {2 * self.tokens + 1} or more, not {setting.length}: "
                "the symbols, a signal, and the symbols again"
            )

    def draw(self, rng: np.random.Generator, rows: int, setting: Difficulty) -> Drawn:
        """Draw rows."""
        length, count, blank = setting.length, self.tokens, self.vocabulary - 2
        drawn, end = Drawn.blank(rows, length, blank), length - count - 1
        symbols = rng.integers(blank, size=(rows, count))
        positions = np.broadcast_to(np.arange(count), (rows, count))
        if self.spread:
            positions = np.sort(draw_distinct(rng, rows, count, end), 1)
        np.put_along_axis(drawn.inputs, positions, symbols, 1)
        drawn.inputs[:, end] = blank + 1
        drawn.put_label(np.broadcast_to(end + 1 + np.arange(count), (rows, count)), symbols, positions)
        return drawn


@dataclass(frozen=True)
class Induction:
    """Random symbols; after the second star the symbol that followed the first.

    Source: Fu et al. 2023, section 3.1, https://arxiv.org/abs/2212.14052; defaults: Gu and Dao 2023, appendix E.1,
        https://arxiv.org/abs/2312.00752
    """

    vocabulary: int = 16
    metrics: ClassVar = ("distance_accuracy",)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Random symbols, and the star."""
        return (*map(str, range(self.vocabulary - 1)), "*")

    def check(self, setting: Difficulty) -> None:
        """Raise a UserError if there is no room for two stars and a symbol, or there is one symbol."""
        if self.vocabulary < 3 or setting.length < 3:
            raise UserError(
                f"task.vocabulary={self.vocabulary} and a length of {setting.length}: two stars and a symbol between "
                "need 3 or more of each"
            )

    def draw(self, rng: np.random.Generator, rows: int, setting: Difficulty) -> Drawn:
        """Draw rows."""
        length, star = setting.length, self.vocabulary - 1
        drawn = Drawn.blank(rows, length)
        drawn.inputs[:] = rng.integers(star, size=(rows, length))
        first = rng.integers(length - 2, size=(rows, 1))
        np.put_along_axis(drawn.inputs, first, star, 1)
        drawn.inputs[:, -1] = star
        answers = np.take_along_axis(drawn.inputs, first + 1, 1)
        drawn.put_label(np.full_like(first, length - 1), answers, first + 1)
        return drawn


@dataclass(frozen=True)
class Compression:
    """Random symbols and a signal, whose state is all that labels are read from: each symbol, in its place.

    Source: Poli et al. 2024, section 3.1, https://arxiv.org/abs/2403.17844
    """

    vocabulary: int = 16
    metrics: ClassVar = ("sequence_accuracy",)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Random symbols, and the signal."""
        return (*map(str, range(self.vocabulary - 1)), "compress")

    def check(self, setting: Difficulty) -> None:
        """Raise a UserError if there is nothing to compress."""
        if self.vocabulary < 3 or setting.length < 2:
            raise UserError(
                f"task.vocabulary={self.vocabulary} and a length of {setting.length}: there is nothing to compress; "
                "use 3 or more symbols, one of them the signal, and 2 or more steps"
            )

    def draw(self, rng: np.random.Generator, rows: int, setting: Difficulty) -> Drawn:
        """Draw rows; the signal is labeled, too."""
        drawn, signal = Drawn.blank(rows, setting.length), self.vocabulary - 1
        drawn.inputs[:] = rng.integers(signal, size=drawn.inputs.shape)
        drawn.inputs[:, -1] = signal
        drawn.put_label(np.broadcast_to(np.arange(setting.length), drawn.inputs.shape), drawn.inputs)
        return drawn


@dataclass(frozen=True)
class Memorization:
    """Keys, each followed by a question mark, which is labeled by the key's value: the same in all sequences.

    Source: Poli et al. 2024, section 3.1, https://arxiv.org/abs/2403.17844
    """

    vocabulary: int = 256
    seed: int = 1  # of the values
    metrics: ClassVar = ()

    @property
    def symbols(self) -> tuple[str, ...]:
        """Keys, values, and the question mark."""
        return (*map(str, range(self.vocabulary - 1)), "?")

    def check(self, setting: Difficulty) -> None:
        """Raise a UserError if the length is odd, or there are not two keys."""
        if setting.length % 2 or self.vocabulary < 5:
            raise UserError(
                f"task.vocabulary={self.vocabulary} and a length of {setting.length}: memorization needs an even "
                "length, and a vocabulary of 5 or more, half of it keys"
            )

    def draw(self, rng: np.random.Generator, rows: int, setting: Difficulty) -> Drawn:
        """Draw rows."""
        mark, half = self.vocabulary - 1, (self.vocabulary - 1) // 2
        values = half + np.random.default_rng(self.seed).permutation(mark - half)[:half]
        drawn, count = Drawn.blank(rows, setting.length, mark), setting.length // 2
        keys = rng.integers(half, size=(rows, count))
        drawn.inputs[:, ::2] = keys
        drawn.put_label(np.broadcast_to(1 + 2 * np.arange(count), keys.shape), values[keys])
        return drawn
