"""The ids of the four symbols that every vocabulary begins with."""

from __future__ import annotations

PAD, BOS, EOS, UNK = 0, 1, 2, 3
# Where stories are read, the id of the symbol that ends a sentence: it comes next in their vocabulary.
STOP = 4
