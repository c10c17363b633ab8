"""The tokenizer ``character``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from attnx.data.examples import Symbols
from attnx.data.tokenizers.contract import SPACE, join_pieces
from attnx.data.tokenizers.frequent_symbols import load_symbols, most_frequent, save_symbols
from attnx.registry import register


@register("tokenizer", "character")
class Character:
    """Every character is a symbol, the space among them.

    Formula: ``tokenize("a dog") = a ▁ d o g``
    Source: Chung et al. 2016, https://arxiv.org/abs/1603.06147

    Sequences are long; only rare and unseen characters are unknown. A character is a code point:
    ``task.unicode_form=nfc`` makes a letter and its accent one.

    >>> tokenizer = Character()
    >>> tokenizer.train(["a dog", "odd"], size=3)
    >>> tokenizer.symbols, tokenizer.tokenize("a dog")
    (('a', 'd', 'o'), ('a', '▁', 'd', 'o', 'g'))
    """

    def __init__(self) -> None:
        self.symbols: Symbols = ()

    def train(self, texts: Iterable[str], size: int) -> None:
        """Learn the ``size`` most frequent characters."""
        self.symbols = most_frequent(map(self.tokenize, texts), size)

    def tokenize(self, text: str) -> Symbols:
        """Text to characters."""
        return tuple(text.replace(" ", SPACE))

    def detokenize(self, symbols: Sequence[str]) -> str:
        """Characters to text."""
        return join_pieces(symbols)

    def save(self, path: Path) -> None:
        """Write the characters."""
        save_symbols(path, self.symbols)

    def load(self, path: Path) -> None:
        """Read the characters."""
        self.symbols = load_symbols(path)
