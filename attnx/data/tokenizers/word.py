"""The tokenizer ``word``."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path

from attnx.data.examples import Symbols
from attnx.data.tokenizers.counted import load_symbols, most_frequent, save_symbols
from attnx.registry import register

# On the side of a mark where no space was; a text's own becomes a lookalike.
GLUE, LOOKALIKE = "￭", "■"


@register("tokenizer", "word")
class Word:
    """Words, with every punctuation mark a symbol of its own that knows on which sides it had no space.

    Formula: ``cut("l'ami, oui") = l ￭'￭ ami ￭, oui``
    Source: the joiners of OpenNMT's Tokenizer, https://github.com/OpenNMT/Tokenizer

    A word is a run of letters, digits, underscores and the marks that combine with them, in any script. Only marks
    carry joiners, so a word is one symbol wherever it stands. Rare words are unknown: the model sees and writes one
    symbol for all of them.

    >>> tokenizer = Word()
    >>> tokenizer.cut("(l'ami), oui!")
    ('(￭', 'l', "￭'￭", 'ami', '￭)', '￭,', 'oui', '￭!')
    >>> tokenizer.join(tokenizer.cut("(l'ami), oui!"))
    "(l'ami), oui!"
    """

    def __init__(self) -> None:
        self.symbols: Symbols = ()

    def train(self, texts: Iterable[str], size: int) -> None:
        """Keep the ``size`` most frequent words and marks."""
        self.symbols = most_frequent(map(self.cut, texts), size)

    def cut(self, text: str) -> Symbols:
        """Text to words and marks."""
        behind_something, before_a_word = _marks()
        apart = behind_something.sub(rf" {GLUE}\1", text.replace(GLUE, LOOKALIKE))
        # Interned: a text has far more words than different ones.
        return tuple(map(sys.intern, before_a_word.sub(rf"\1{GLUE} ", apart).split()))

    def join(self, symbols: Sequence[str]) -> str:
        """Words and marks to text."""
        return " ".join(symbols).replace(f"{GLUE} ", "").replace(f" {GLUE}", "").replace(GLUE, "")

    def save(self, path: Path) -> None:
        """Write the words."""
        save_symbols(path, self.symbols)

    def load(self, path: Path) -> None:
        """Read them."""
        self.symbols = load_symbols(path)


@cache
def _marks() -> tuple[re.Pattern[str], re.Pattern[str]]:
    r"""A mark with no space before it, and one with a word right behind it; made when first used.

    Marks are all that is neither space nor part of a word, and ``\w`` alone knows no combining marks.
    """
    word = rf"\w{_combining()}"
    return re.compile(rf"(?<=\S)([^\s{word}])"), re.compile(rf"([^\s{word}])(?=[{word}])")


def _combining() -> str:
    """Ranges of the characters that combine with others (Unicode's M*), and the joiners inside some scripts' words."""
    codes = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith("M")]
    ranges = []
    for _, run in groupby(enumerate(codes), key=lambda item: item[1] - item[0]):
        listed = [code for _, code in run]
        ranges.append(f"{chr(listed[0])}-{chr(listed[-1])}")
    return "".join(ranges) + "\u200c\u200d"
