"""The tokenizer ``character``."""

from __future__ import annotations

from collections.abc import Sequence

from attnx.data.examples import Symbols
from attnx.data.tokenizers.contract import SPACE, join_pieces
from attnx.data.tokenizers.frequent_symbols import FrequentSymbols
from attnx.registry import register


@register("tokenizer", "character")
class Character(FrequentSymbols):
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

    def tokenize(self, text: str) -> Symbols:
        """Text to characters."""
        return tuple(text.replace(" ", SPACE))

    def detokenize(self, symbols: Sequence[str]) -> str:
        """Characters to text."""
        return join_pieces(symbols)
