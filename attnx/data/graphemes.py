"""How a word is cut into source symbols: what Unicode calls one character can be written as several, or the reverse."""

from __future__ import annotations

import unicodedata
from typing import Literal

from attnx.data.examples import Symbols

Writing = Literal["as_is", "nfc", "nfd", "jamo"]


def cut(text: str, writing: Writing) -> Symbols:
    r"""Cut a text into its characters, one code point each.

    Args:
        text: a word.
        writing: ``as_is`` leaves the code points as they are. ``nfc`` composes: a letter and its marks are one symbol
            wherever Unicode has one. ``nfd`` decomposes: a letter, then each of its marks; a Hangul syllable becomes
            its jamo. ``jamo`` cuts Hangul syllables alone, and composes everything else.

    The jamo are Unicode's: a consonant that opens a syllable and the same one that closes it are two symbols. Source:
    Unicode Standard Annex 15, https://unicode.org/reports/tr15/

    >>> word = "e\u0301\uac01"  # an e, its accent apart, and a syllable of three jamo
    >>> [len(cut(word, writing)) for writing in ("as_is", "nfc", "nfd", "jamo")]
    [3, 2, 5, 4]
    """
    if writing == "as_is":
        return tuple(text)
    if writing == "nfd":
        return tuple(unicodedata.normalize("NFD", text))
    composed = unicodedata.normalize("NFC", text)
    return tuple(composed if writing == "nfc" else "".join(map(_jamo, composed)))


def _jamo(letter: str) -> str:
    """Cut one of the 11,172 composed syllables of Hangul, and nothing else."""
    return unicodedata.normalize("NFD", letter) if "\uac00" <= letter <= "\ud7a3" else letter
