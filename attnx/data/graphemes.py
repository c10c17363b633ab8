"""Splitting a word into source symbols, in one of several Unicode forms."""

from __future__ import annotations

import unicodedata
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
    return tuple(composed if graphemes == "nfc" else "".join(map(_split_syllable, composed)))


def _split_syllable(letter: str) -> str:
    """Decompose one of the 11,172 composed Hangul syllables; other letters stay."""
    return unicodedata.normalize("NFD", letter) if "\uac00" <= letter <= "\ud7a3" else letter
