"""What the tokenizers ``word`` and ``character`` share: they learn the most frequent symbols of texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from attnx.data.examples import Symbols
from attnx.data.vocabulary import load_symbols, save_symbols


class FrequentSymbols:
    """Learns the most frequent symbols; subclasses cut and join texts."""

    def __init__(self) -> None:
        self.symbols: Symbols = ()

    def tokenize(self, text: str) -> Symbols:
        """Text to symbols."""
        raise NotImplementedError

    def train(self, texts: Iterable[str], size: int) -> None:
        """Learn the ``size`` most frequent symbols; ties go to the first in sorted order."""
        counts = Counter(chain.from_iterable(map(self.tokenize, texts)))
        ranked = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))
        self.symbols = tuple(sorted(ranked[:size]))

    def save(self, path: Path) -> None:
        """Write the symbols."""
        save_symbols(path, self.symbols)

    def load(self, path: Path) -> None:
        """Read the symbols."""
        self.symbols = load_symbols(path)
