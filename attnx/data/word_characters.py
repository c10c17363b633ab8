"""The characters of words, in any script."""

from __future__ import annotations

import sys
import unicodedata
from functools import cache
from itertools import groupby


@cache
def word_characters() -> str:
    r"""Return the inside of a character class: letters, digits, underscores, and the marks that combine with them.

    ``\w`` does not match Unicode's combining characters (M*), nor the joiners inside words of some scripts.
    """
    codes = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith("M")]
    runs = [[code for _, code in run] for _, run in groupby(enumerate(codes), key=lambda item: item[1] - item[0])]
    return r"\w" + "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs) + "\u200c\u200d"
