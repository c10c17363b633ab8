"""The ids of the four symbols that every vocabulary begins with, and the source symbol that names a language."""

from __future__ import annotations

PAD, BOS, EOS, UNK = 0, 1, 2, 3
# Where stories are read, the id of the symbol that ends a sentence: it comes next in their vocabulary.
STOP = 4


def tag_symbol(tag: str) -> str:
    """The source symbol of a language: longer than one character, as no letter is, and no special such as ``<bos>``."""
    return f"<tag:{tag}>"
