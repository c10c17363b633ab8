"""The laws of every tokenizer."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from attnx.laws.candidate import Candidate
from attnx.laws.violation import described, require

TEXTS = ["the cat sat on the mat", "a cat and a hat", "that is the hat", "ö is one letter"] * 5
SIZE = 300  # more than every tokenizer needs at least
METHODS = ("train", "tokenize", "detokenize", "save", "load")


def trained(tokenizer: Candidate) -> Any:
    """A tokenizer trained on some texts."""
    part = tokenizer.build()
    part.train(TEXTS, SIZE)
    return part


def declarations(tokenizer: Candidate) -> None:
    """A tokenizer has the methods train, tokenize, detokenize, save and load."""
    part = tokenizer.build()
    missing = [name for name in METHODS if not callable(getattr(part, name, None))]
    require(not missing, "", f"{type(part).__name__} has no method {', '.join(missing)}")


def training_is_deterministic(tokenizer: Candidate) -> None:
    """The same texts give the same symbols, sorted and at most as many as requested."""
    first, second = trained(tokenizer).symbols, trained(tokenizer).symbols
    require(isinstance(first, tuple), "train", f"its symbols are {described(first)} instead of a tuple")
    require(first == second, "train", "the same texts gave other symbols")
    require(list(first) == sorted(first), "train", "its symbols are not sorted")
    require(0 < len(first) <= SIZE, "train", f"it learned {len(first)} symbols of at most {SIZE}")


def joining_inverts_cutting(tokenizer: Candidate) -> None:
    """Cutting and joining a text gives the text, by way of learned symbols."""
    part = trained(tokenizer)
    for text in TEXTS[:4]:
        symbols = part.tokenize(text)
        require(part.detokenize(symbols) == text, "detokenize", f"{text!r} came back as {part.detokenize(symbols)!r}")
        unknown = [symbol for symbol in symbols if symbol not in part.symbols]
        require(not unknown, "tokenize", f"{unknown[:1]} is not one of its symbols")


def reloaded_tokenizers_are_the_same(tokenizer: Candidate) -> None:
    """A tokenizer that is saved and loaded cuts as before."""
    part, reloaded = trained(tokenizer), tokenizer.build()
    with tempfile.TemporaryDirectory() as folder:
        part.save(Path(folder) / "tokenizer")
        reloaded.load(Path(folder) / "tokenizer")
    require(reloaded.symbols == part.symbols, "load", "it loaded other symbols than it saved")
    same = all(reloaded.tokenize(text) == part.tokenize(text) for text in TEXTS[:4])
    require(same, "load", "loaded, it tokenizes differently")


QUICK = (declarations,)
LAWS = (*QUICK, training_is_deterministic, joining_inverts_cutting, reloaded_tokenizers_are_the_same)
