"""The ids of the four symbols that every vocabulary begins with."""

from __future__ import annotations

PAD, BOS, EOS, UNK = 0, 1, 2, 3
