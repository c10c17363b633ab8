"""Symbols and their numbers: four specials first, then the symbols of the data in sorted order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from attnx.data.special_tokens import BOS, EOS, PAD, UNK
from attnx.errors import UserError
from attnx.files.bounded_files import MAX_LIST_BYTES, read_json

__all__ = ["BOS", "EOS", "PAD", "UNK", "Vocabulary"]

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")


@dataclass(frozen=True)
class Vocabulary:
    """A two-way table of symbols and ids.

    Args:
        symbols: every symbol, in the order of its id; the specials ``<pad> <bos> <eos> <unk>`` come first.

    Raises:
        UserError: the specials do not come first, or a symbol is listed twice (a special's name included).

    >>> letters = Vocabulary.of(["ba", "ab"])
    >>> letters.encode("abc", end=True), letters.decode([1, 5, 4, 2, 4])
    ([4, 5, 3, 2], ['b', 'a'])
    """

    symbols: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check that the specials come first and that each symbol has one id."""
        if self.symbols[: len(SPECIALS)] != SPECIALS:
            raise UserError(f"a vocabulary must begin with {SPECIALS}, not with {self.symbols[:4]}")
        if twice := [symbol for symbol, times in Counter(self.symbols).items() if times > 1]:
            raise UserError(f"the symbol {twice[0]!r} is in the vocabulary twice")

    @classmethod
    def of(cls, sequences: Iterable[Iterable[str]]) -> Vocabulary:
        """Build the vocabulary of ``sequences``; it depends on the set of symbols alone, not on their order.

        Raises:
            UserError: a symbol has the name of a special.
        """
        found = {symbol for sequence in sequences for symbol in sequence}
        if taken := sorted(found.intersection(SPECIALS)):
            raise UserError(f"the data hold the symbol {taken[0]!r}, a name attnx keeps for itself; rename it")
        return cls(SPECIALS + tuple(sorted(found)))

    @cached_property
    def _ids(self) -> dict[str, int]:
        # The specials are left out: text that happens to read "<eos>" is an unknown symbol, not an end.
        return {symbol: i for i, symbol in enumerate(self.symbols) if i >= len(SPECIALS)}

    def __str__(self) -> str:
        """For the start table."""
        return f"{len(self)} symbols"

    def __len__(self) -> int:
        """Return the number of ids, the specials included."""
        return len(self.symbols)

    def encode(self, symbols: Iterable[str], end: bool = False) -> list[int]:
        """Return the ids of ``symbols`` (unknown ones become ``UNK``), closed by ``EOS`` if ``end``."""
        id_of = self._ids.get
        ids = [id_of(symbol, UNK) for symbol in symbols]
        return [*ids, EOS] if end else ids

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the symbols of ``ids`` up to the first ``EOS``, without ``PAD`` and ``BOS``."""
        symbols = []
        for i in ids:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                symbols.append(self.symbols[i])
        return symbols

    def same_in(self, other: Vocabulary) -> list[int]:
        """Return, for each id, that of the same symbol in another vocabulary; ``PAD`` for specials and where none is.

        >>> Vocabulary.of(["ab"]).same_in(Vocabulary.of(["bc"]))
        [0, 0, 0, 0, 0, 4]
        """
        specials = [PAD] * len(SPECIALS)
        return specials + [other._ids.get(symbol, PAD) for symbol in self.symbols[len(SPECIALS) :]]

    def save(self, path: str | Path) -> None:
        """Write the symbols to ``path`` as a JSON list."""
        Path(path).write_text(json.dumps(self.symbols, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Read what ``save`` wrote.

        Raises:
            UserError: the file cannot be read or is no vocabulary; the message begins with its path.
        """
        symbols = read_json(Path(path), MAX_LIST_BYTES)
        if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
            raise UserError(f"{path}: is no vocabulary: expected a JSON list of strings")
        try:
            return cls(tuple(symbols))
        except UserError as error:
            raise UserError(f"{path}: {error}") from error
