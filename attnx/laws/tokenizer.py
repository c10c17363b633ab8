"""The laws of every tokenizer."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from attnx.laws.laws import PartLaws
from attnx.laws.violation import describe_type, require

TEXTS = ["the cat sat on the mat", "a cat and a hat", "that is the hat", "ö is one letter"] * 5
SIZE = 300  # more than every tokenizer needs at least


class TokenizerLaws(PartLaws):
    """The laws of every tokenizer."""

    kind = "tokenizer"
    quick = ("declarations",)
    methods = ("train", "tokenize", "detokenize", "save", "load")

    def _trained(self) -> Any:
        """A tokenizer trained on some texts."""
        part = self._build()
        part.train(TEXTS, SIZE)
        return part

    def declarations(self) -> None:
        """A tokenizer has the methods train, tokenize, detokenize, save and load."""
        self._require_methods()

    def training_is_deterministic(self) -> None:
        """The same texts give the same symbols, sorted and at most as many as requested."""
        first, second = self._trained().symbols, self._trained().symbols
        require(isinstance(first, tuple), "train", f"its symbols are {describe_type(first)} instead of a tuple")
        require(first == second, "train", "the same texts gave other symbols")
        require(list(first) == sorted(first), "train", "its symbols are not sorted")
        require(0 < len(first) <= SIZE, "train", f"it learned {len(first)} symbols of at most {SIZE}")

    def joining_inverts_cutting(self) -> None:
        """Cutting and joining a text gives the text, by way of learned symbols."""
        part = self._trained()
        for text in TEXTS[:4]:
            symbols = part.tokenize(text)
            joined = part.detokenize(symbols)
            require(joined == text, "detokenize", f"{text!r} came back as {joined!r}")
            unknown = [symbol for symbol in symbols if symbol not in part.symbols]
            require(not unknown, "tokenize", f"{unknown[:1]} is not one of its symbols")

    def reloaded_tokenizers_are_the_same(self) -> None:
        """A tokenizer that is saved and loaded cuts as before."""
        part, reloaded = self._trained(), self._build()
        with tempfile.TemporaryDirectory() as folder:
            part.save(Path(folder) / "tokenizer")
            reloaded.load(Path(folder) / "tokenizer")
        require(reloaded.symbols == part.symbols, "load", "it loaded other symbols than it saved")
        same = all(reloaded.tokenize(text) == part.tokenize(text) for text in TEXTS[:4])
        require(same, "load", "loaded, it tokenizes differently")
