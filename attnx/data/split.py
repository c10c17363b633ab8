"""Train, valid and test parts that a word never leaves, whatever else the data hold."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Container, Iterable
from typing import NamedTuple

from attnx.data.examples import Pair, Symbols
from attnx.errors import UserError


class Splits(NamedTuple):
    """The three parts, each in the order of the data."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


def place(source: Symbols) -> float:
    """Return the word's own number in [0, 1): the first 53 bits of the SHA-256 of its UTF-8 text."""
    digest = hashlib.sha256("".join(source).encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53  # 53 bits: more would round up to 1.0


def fold_text(text: str) -> str:
    r"""Return a text in which case and Unicode form make no difference.

    >>> fold_text("Ça va ?") == fold_text("c\u0327A VA ?")
    True
    """
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def bounds(holdout: float, given: Container[str]) -> tuple[float, float]:
    """Return the numbers between which a source trains: below them it tests, above it validates.

    Of the parts ``valid`` and ``test`` those that are ``given`` are not held out; ``holdout`` is the share of the
    former, twice as much that of the latter.
    """
    return 0.0 if "test" in given else 2 * holdout, 1.0 if "valid" in given else 1 - holdout


def met_in_training(part: str, met: int, total: int) -> list[str]:
    """A line for people on how many of a part's sources are also in the training part; none if none is."""
    return [f"{met:,} of {total:,} sources of the {part} part are also in the training part"] if met else []


def split_by_word(pairs: Iterable[Pair], valid: float, test: float) -> Splits:
    """Split by the words' own numbers: the lowest ``test`` of [0, 1) and the highest ``valid`` are set apart.

    A word's part depends on nothing but the word, so adding or reordering data moves no word, and another
    ``test`` share moves no word into or out of valid. The sizes meet the shares only on average.

    Raises:
        UserError: a share is outside [0, 1], or together they leave nothing to train on.
    """
    if not 0 <= test <= 1 or not 0 <= valid <= 1 or valid + test >= 1:
        raise UserError(f"the shares valid={valid} and test={test} must be 0 or more, with a sum below 1")
    parts = Splits([], [], [])
    for pair in pairs:
        at = place(pair.source)
        (parts.test if at < test else parts.valid if at >= 1 - valid else parts.train).append(pair)
    return parts


def hold_out(pairs: Iterable[Pair], share: float) -> tuple[list[Pair], list[Pair]]:
    """Return (kept, held): held are the words whose number lies in the highest ``share`` of [0, 1).

    The held words are those that ``split_by_word(pairs, valid=share, ...)`` calls valid.

    Raises:
        UserError: the share is not in [0, 1).
    """
    if not 0 <= share < 1:
        raise UserError(f"the share to hold out must be 0 or more and below 1, not {share}")
    kept: list[Pair] = []
    held: list[Pair] = []
    for pair in pairs:
        (held if place(pair.source) >= 1 - share else kept).append(pair)
    return kept, held
