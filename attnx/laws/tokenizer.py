"""The laws of every tokenizer."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from attnx.laws.candidate import Candidate
from attnx.laws.violation import described, require

TEXTS = ["the cat sat on the mat", "a cat and a hat", "that is the hat", "ö is one letter"] * 5
SIZE = 300  # more than every tokenizer needs at least
METHODS = ("train", "cut", "join", "save", "load")


def trained(tokenizer: Candidate) -> Any:
    """A tokenizer that has learned from some texts."""
    part = tokenizer.build()
    part.train(TEXTS, SIZE)
    return part


def declarations(tokenizer: Candidate) -> None:
    """A tokenizer has the methods train, cut, join, save and load."""
    part = tokenizer.build()
    missing = [name for name in METHODS if not callable(getattr(part, name, None))]
    require(not missing, "", f"{type(part).__name__} has no method {', '.join(missing)}")


def it_learns_symbols(tokenizer: Candidate) -> None:
    """The same texts give the same symbols, sorted, and no more than were asked for."""
    first, second = trained(tokenizer).symbols, trained(tokenizer).symbols
    require(isinstance(first, tuple), "train", f"its symbols are {described(first)} instead of a tuple")
    require(first == second, "train", "the same texts gave other symbols")
    require(list(first) == sorted(first), "train", "its symbols are not sorted")
    require(0 < len(first) <= SIZE, "train", f"it learned {len(first)} symbols of at most {SIZE}")


def joining_gives_back_what_was_cut(tokenizer: Candidate) -> None:
    """A text that was cut is joined to the same text, and is made of learned symbols."""
    part = trained(tokenizer)
    for text in TEXTS[:4]:
        symbols = part.cut(text)
        require(part.join(symbols) == text, "join", f"{text!r} came back as {part.join(symbols)!r}")
        unknown = [symbol for symbol in symbols if symbol not in part.symbols]
        require(not unknown, "cut", f"{unknown[:1]} is none of its symbols")


def it_is_saved_and_loaded(tokenizer: Candidate) -> None:
    """A tokenizer that loads what another saved cuts as that does."""
    part, other = trained(tokenizer), tokenizer.build()
    with tempfile.TemporaryDirectory() as folder:
        part.save(Path(folder) / "tokenizer")
        other.load(Path(folder) / "tokenizer")
    require(other.symbols == part.symbols, "load", "it loaded other symbols than were saved")
    same = all(other.cut(text) == part.cut(text) for text in TEXTS[:4])
    require(same, "load", "loaded, it cuts otherwise")


QUICK = (declarations,)
LAWS = (*QUICK, it_learns_symbols, joining_gives_back_what_was_cut, it_is_saved_and_loaded)
