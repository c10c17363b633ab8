"""Vocabularies: symbols and their ids; four specials first, then the symbols of the data, sorted."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from attnx.errors import UserError, report_place
from attnx.files.atomic_files import write_json
from attnx.files.bounded_files import MAX_LIST_BYTES, read_json

PAD, BOS, EOS, UNK = 0, 1, 2, 3
# In vocabularies of stories, the id of the full stop that ends a sentence.
STOP = 4
# In vocabularies of pairs of texts, the id of the symbol between the two.
SEP = 5
# In place of a label, where a step of a sequence has none.
NO_LABEL = "."
# The unknown symbol in a text: one word, whatever the tokenizer.
UNK_TEXT = "⁇"


def tag_symbol(tag: str) -> str:
    """Return the source symbol of a language: longer than any letter, and no special such as ``<bos>``."""
    return f"<tag:{tag}>"


SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")


@dataclass(frozen=True)
class Vocabulary:
    """A two-way table of symbols and ids: ``symbols`` in the order of their ids, ``<pad> <bos> <eos> <unk>`` first.
    Other beginnings, and a symbol that is listed twice (a special's name included), are UserErrors.

    >>> letters = Vocabulary.of(["ba", "ab"])
    >>> letters.encode("abc", end=True), letters.decode([1, 5, 4, 2, 4])
    ([4, 5, 3, 2], ['b', 'a'])
    """

    symbols: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check that the specials come first and that no symbol is listed twice."""
        if self.symbols[: len(SPECIALS)] != SPECIALS:
            raise UserError(f"a vocabulary must begin with {SPECIALS}, not with {self.symbols[:4]}")
        if duplicates := [symbol for symbol, count in Counter(self.symbols).items() if count > 1]:
            raise UserError(f"the symbol {duplicates[0]!r} is in the vocabulary twice")

    @classmethod
    def of(cls, sequences: Iterable[Iterable[str]], first: Sequence[str] = ()) -> Vocabulary:
        """Build the vocabulary of ``first``, in its order, and of the other symbols in ``sequences``.

        Raises:
            UserError: a symbol is named like a special.
        """
        symbols = {symbol for sequence in sequences for symbol in sequence}
        if reserved := sorted(symbols.intersection(SPECIALS)):
            raise UserError(f"the symbol {reserved[0]!r} in the data is reserved; rename it")
        return cls((*SPECIALS, *first, *sorted(symbols.difference(first))))

    @cached_property
    def _ids(self) -> dict[str, int]:
        # Without the specials: "<eos>" in a text is an unknown symbol, not an end.
        return {symbol: i for i, symbol in enumerate(self.symbols) if i >= len(SPECIALS)}

    def __str__(self) -> str:
        return f"{len(self)} symbols"

    @property
    def signature(self) -> str:
        """What a perplexity is over: those over two vocabularies are not comparable."""
        return f"{self} {hashlib.sha256(repr(self.symbols).encode()).hexdigest()[:8]}"

    def __len__(self) -> int:
        """Return the number of ids, the specials included."""
        return len(self.symbols)

    def encode(self, symbols: Iterable[str], end: bool = False) -> list[int]:
        """Return the ids of ``symbols`` (unknown ones become ``UNK``), ended by ``EOS`` if ``end``."""
        lookup = self._ids.get
        ids = [lookup(symbol, UNK) for symbol in symbols]
        return [*ids, EOS] if end else ids

    def knows(self, symbol: str) -> bool:
        """Return whether a symbol, which is no special, has an id of its own."""
        return symbol in self._ids

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the symbols of ``ids`` up to the first ``EOS``, without ``PAD`` and ``BOS``."""
        return [self.symbols[i] for i in takewhile(lambda i: i != EOS, ids) if i not in (PAD, BOS)]

    def ids_in(self, vocabulary: Vocabulary) -> list[int]:
        """Return each symbol's id in another vocabulary; ``PAD`` for specials and missing symbols.

        >>> Vocabulary.of(["ab"]).ids_in(Vocabulary.of(["bc"]))
        [0, 0, 0, 0, 0, 4]
        """
        specials = [PAD] * len(SPECIALS)
        return specials + [vocabulary._ids.get(symbol, PAD) for symbol in self.symbols[len(SPECIALS) :]]

    def save(self, path: str | Path) -> None:
        """Write the symbols to ``path`` as a JSON list."""
        save_symbols(path, self.symbols)

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Read the file that :meth:`save` wrote; any other is a UserError."""
        symbols = load_symbols(path)
        with report_place(str(path)):
            return cls(symbols)


def save_symbols(path: str | Path, symbols: tuple[str, ...]) -> None:
    """Write symbols as a JSON list."""
    write_json(Path(path), symbols, indent=0)


def load_symbols(path: str | Path) -> tuple[str, ...]:
    """Read what :func:`save_symbols` wrote; a UserError if it is not a list of strings."""
    symbols = read_json(Path(path), MAX_LIST_BYTES)
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise UserError(f"{path}: is not a list of symbols: expected a JSON list of strings")
    return tuple(symbols)
