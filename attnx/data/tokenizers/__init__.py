"""Tokenizers by name: their contract, and what several of them share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from attnx.data.examples import Symbols
from attnx.errors import UserError

# Marks the start of a word, as in SentencePiece; in a text it counts as a space.
SPACE = "▁"


class Tokenizer(Protocol):
    """Cuts texts into symbols and joins symbols to texts.

    Texts have single spaces between words and none at their ends. Then ``detokenize`` undoes ``tokenize``, except for
    symbols that were not learned. Processes that encode a large corpus get pickled copies.

    Attributes:
        symbols: all learned symbols, sorted; every other symbol is unknown.
    """

    symbols: Symbols

    def train(self, texts: Iterable[str], size: int) -> None:
        """Learn at most ``size`` symbols, always the same ones; a UserError if ``size`` is too small for the texts."""
        ...

    def tokenize(self, text: str) -> Symbols:
        """Text to symbols."""
        ...

    def detokenize(self, symbols: Sequence[str]) -> str:
        """Any sequence of symbols to text."""
        ...

    def save(self, path: Path) -> None:
        """Write what was learned to a file."""
        ...

    def load(self, path: Path) -> None:
        """Read what :meth:`save` wrote; a UserError if the file cannot be read, or a package is missing."""
        ...


def join_pieces(symbols: Sequence[str]) -> str:
    """Join symbols that mark the start of a word with ``▁``."""
    return " ".join("".join(symbols).replace(SPACE, " ").split())


def alphabet(texts: Iterable[str]) -> set[str]:
    """Return the characters of the texts, with ``▁`` for the space."""
    return set[str]().union(*texts) - {" "} | {SPACE}


def check_size(name: str, num_characters: int, size: int) -> None:
    """Raise a UserError if there are more characters than symbols."""
    if size < num_characters:
        raise UserError(f"task.vocab_size={size}: the tokenizer {name} needs {num_characters} or more, one a character")
