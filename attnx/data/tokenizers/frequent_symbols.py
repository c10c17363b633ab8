"""The tokenizers ``word`` and ``character``: their symbols are the most frequent ones of the texts."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

from attnx.data.examples import Symbols
from attnx.data.graphemes import word_characters
from attnx.data.tokenizers import SPACE, join_pieces
from attnx.data.vocabulary import load_symbols, save_symbols
from attnx.registry import register

# Stands on the sides of a mark without a space; in a text it is replaced by a lookalike.
GLUE, LOOKALIKE = "￭", "■"


class FrequentSymbols:
    """Learns the most frequent symbols; subclasses cut and join texts."""

    def __init__(self) -> None:
        self.symbols: Symbols = ()

    def tokenize(self, text: str) -> Symbols:
        """Text to symbols."""
        raise NotImplementedError

    def train(self, texts: Iterable[str], size: int) -> None:
        """Learn the ``size`` most frequent symbols; ties go to the first in sorted order."""
        counts = Counter(chain.from_iterable(map(self.tokenize, texts)))
        ranked = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))
        self.symbols = tuple(sorted(ranked[:size]))

    def save(self, path: Path) -> None:
        """Write the symbols."""
        save_symbols(path, self.symbols)

    def load(self, path: Path) -> None:
        """Read the symbols."""
        self.symbols = load_symbols(path)


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


@register("tokenizer", "word")
class Word(FrequentSymbols):
    """Words and punctuation marks; a mark records on which sides it had no space.

    Formula: ``tokenize("l'ami, oui") = l ￭'￭ ami ￭, oui``
    Source: the joiners of OpenNMT's Tokenizer, https://github.com/OpenNMT/Tokenizer

    A word is a run of letters, digits, underscores and the marks that combine with them, in any script. Only marks
    carry joiners, so a word is the same symbol everywhere. Rare words are unknown: the model reads and writes one
    symbol for all of them.

    >>> tokenizer = Word()
    >>> tokenizer.tokenize("(l'ami), oui!")
    ('(￭', 'l', "￭'￭", 'ami', '￭)', '￭,', 'oui', '￭!')
    >>> tokenizer.detokenize(tokenizer.tokenize("(l'ami), oui!"))
    "(l'ami), oui!"
    """

    def tokenize(self, text: str) -> Symbols:
        """Text to words and marks."""
        attached_left, attached_right = _mark_patterns()
        glued = attached_left.sub(rf" {GLUE}\1", text.replace(GLUE, LOOKALIKE))
        # Interned: a text has far more words than different ones.
        return tuple(map(sys.intern, attached_right.sub(rf"\1{GLUE} ", glued).split()))

    def detokenize(self, symbols: Sequence[str]) -> str:
        """Words and marks to text."""
        return " ".join(symbols).replace(f"{GLUE} ", "").replace(f" {GLUE}", "").replace(GLUE, "")


@cache
def _mark_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of a mark without a space before it, and of one followed by a word.

    A mark is any character that is neither space nor part of a word.
    """
    word = word_characters()
    return re.compile(rf"(?<=\S)([^\s{word}])"), re.compile(rf"([^\s{word}])(?=[{word}])")
