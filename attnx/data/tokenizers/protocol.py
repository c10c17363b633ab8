"""What every tokenizer does, and what those that learn from a text share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from attnx.data.examples import Symbols
from attnx.errors import UserError

# Stands for a space where a symbol begins a word, as in SentencePiece; in a text it counts as a space.
SPACE = "▁"


class Tokenizer(Protocol):
    """Cuts texts into symbols and joins symbols to texts.

    Texts have single spaces between words and none at their ends; then joining gives back what was cut, save for
    symbols that were not learned.

    Attributes:
        symbols: every symbol it has learned, sorted; a symbol that is not among them stands for something unknown.
    """

    symbols: Symbols

    def train(self, texts: Iterable[str], size: int) -> None:
        """Learn at most ``size`` symbols; the same texts give the same symbols.

        Raises:
            UserError: the package it needs is not installed, or ``size`` is too small for the texts.
        """
        ...

    def cut(self, text: str) -> Symbols:
        """Text to symbols."""
        ...

    def join(self, symbols: Sequence[str]) -> str:
        """Symbols to text; any sequence of symbols will do."""
        ...

    def save(self, path: Path) -> None:
        """Write what was learned to a file."""
        ...

    def load(self, path: Path) -> None:
        """Read what :meth:`save` wrote.

        Raises:
            UserError: the package it needs is not installed, or the file cannot be read.
        """
        ...


def joined(symbols: Sequence[str]) -> str:
    """Symbols that mark with ``▁`` where a word begins, as text."""
    return " ".join("".join(symbols).replace(SPACE, " ").split())


def alphabet(texts: Iterable[str]) -> set[str]:
    """Every character of the texts, with the mark in the place of the space."""
    return set[str]().union(*texts) - {" "} | {SPACE}


def require_room(name: str, characters: int, size: int) -> None:
    """Refuse a size that leaves no room for single characters.

    Raises:
        UserError: ``size`` is below ``characters``.
    """
    if size < characters:
        raise UserError(
            f"task.vocab_size={size}: the tokenizer {name} needs {characters} or more here, one per character"
        )
