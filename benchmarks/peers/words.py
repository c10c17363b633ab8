"""Invented words, each letter with one sound, and the smallest model that learns them, for fast runs."""

from __future__ import annotations

import itertools
from pathlib import Path

LETTERS = "abdeks"
WORDS = "words.tsv"
TINY = (
    f"task.train={WORDS}",
    "task.holdout=0.15",
    "model.embedding_dim=5",
    "encoder.hidden_size=7",
    "decoder.hidden_size=11",
    "trainer.batch_size=8",
)


def write_words(length: int, path: Path = Path(WORDS)) -> None:
    """Write all words of a length."""
    words = itertools.product(LETTERS, repeat=length)
    path.write_text("".join(f"{''.join(word)}\t{' '.join(word)}\n" for word in words), encoding="utf-8")
