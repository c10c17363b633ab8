"""The characters of words: in any script, in several Unicode forms."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from itertools import groupby
from typing import Literal

from attnx.data.examples import Symbols

Graphemes = Literal["as_is", "nfc", "nfd", "jamo"]


def split_graphemes(text: str, graphemes: Graphemes) -> Symbols:
    r"""Split a word into characters, one code point each.

    ``as_is`` keeps the code points. ``nfc`` composes: a letter and its marks are one symbol if Unicode has one. ``nfd``
    decomposes: a letter, then each of its marks; a Hangul syllable becomes its jamo. ``jamo`` decomposes only Hangul
    syllables and composes everything else.

    Initial and final jamo of the same consonant are two symbols. Source: Unicode Standard Annex 15,
    https://unicode.org/reports/tr15/

    >>> word = "e\u0301\uac01"  # an e, its combining accent, and a syllable of three jamo
    >>> [len(split_graphemes(word, graphemes)) for graphemes in ("as_is", "nfc", "nfd", "jamo")]
    [3, 2, 5, 4]
    """
    if graphemes == "as_is":
        return tuple(text)
    if graphemes == "nfd":
        return tuple(unicodedata.normalize("NFD", text))
    composed = unicodedata.normalize("NFC", text)
    if graphemes == "nfc":
        return tuple(composed)
    syllables = re.compile("[\uac00-\ud7a3]")  # 11,172 of Hangul, composed
    return tuple(syllables.sub(lambda match: unicodedata.normalize("NFD", match[0]), composed))


@cache
def word_characters() -> str:
    r"""Return the inside of a character class: letters, digits, underscores, and the marks that combine with them.

    ``\w`` does not match Unicode's combining characters (M*), nor the joiners inside words of some scripts.
    """
    codes = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith("M")]
    runs = [[code for _, code in run] for _, run in groupby(enumerate(codes), key=lambda item: item[1] - item[0])]
    return r"\w" + "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs) + "\u200c\u200d"
