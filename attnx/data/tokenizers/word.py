"""The tokenizer ``word``."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import groupby

from attnx.data.examples import Symbols
from attnx.data.tokenizers.frequent_symbols import FrequentSymbols
from attnx.registry import register

# Stands on the sides of a mark without a space; in a text it is replaced by a lookalike.
GLUE, LOOKALIKE = "￭", "■"


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
    r"""Return patterns of a mark without a space before it, and of one followed by a word.

    A mark is any character that is neither space nor part of a word; ``\w`` does not match combining marks.
    """
    word = rf"\w{_combining_ranges()}"
    return re.compile(rf"(?<=\S)([^\s{word}])"), re.compile(rf"([^\s{word}])(?=[{word}])")


def _combining_ranges() -> str:
    """Return ranges of Unicode's combining characters (M*), and the joiners inside words of some scripts."""
    codes = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith("M")]
    ranges = []
    for _, run in groupby(enumerate(codes), key=lambda item: item[1] - item[0]):
        run_codes = [code for _, code in run]
        ranges.append(f"{chr(run_codes[0])}-{chr(run_codes[-1])}")
    return "".join(ranges) + "\u200c\u200d"
