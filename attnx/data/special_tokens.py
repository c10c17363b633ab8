"""Special tokens: the ids with which every vocabulary starts, and the symbol of a language."""

from __future__ import annotations

PAD, BOS, EOS, UNK = 0, 1, 2, 3
# In vocabularies of stories, the id of the full stop that ends a sentence.
STOP = 4
# In vocabularies of pairs of texts, the id of the symbol between the two.
SEP = 5
# In place of a label, where a step of a sequence has none.
NO_LABEL = "."
# The unknown symbol in a text: one word, whatever the tokenizer.
UNK_TEXT = "⁇"


def tag_symbol(tag: str) -> str:
    """Return the source symbol of a language: longer than any letter, and no special such as ``<bos>``."""
    return f"<tag:{tag}>"
