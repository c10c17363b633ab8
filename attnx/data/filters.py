"""Leaves out of the training pairs what is too long or too lopsided, and says what and how many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from attnx.data.pairs import Pair

EMPTY = "with an empty side"


class Kept(NamedTuple):
    """The pairs that passed, and how many did not, by reason.

    Attributes:
        pairs: in the order of the data.
        dropped: reason -> pairs left out for it; a pair counts once, for the first that holds.
    """

    pairs: list[Pair]
    dropped: Counter[str]


def keep_fitting(pairs: Iterable[Pair], longest: int | None = None, ratio: float | None = None) -> Kept:
    """Drop pairs with an empty side, a side that is too long, or sides of too unlike lengths.

    A pair of several references has to fit with each.

    Args:
        pairs: cut into symbols.
        longest: how many symbols a side may have; None for any number.
        ratio: how many times as long as its other side a side may be; None for any.

    >>> short, long = Pair(("a",), (("x", "y"),)), Pair(("a", "b", "c"), (("x",) * 7,))
    >>> keep_fitting([short, long, short], longest=5).dropped
    Counter({'longer than 5 symbols': 1})
    >>> len(keep_fitting([short, long, short], ratio=2).pairs)
    2
    """
    kept = Kept([], Counter())
    for pair in pairs:
        reasons = (_reason(len(pair.source), len(reference), longest, ratio) for reference in pair.references)
        if reason := next(filter(None, reasons), None):
            kept.dropped[reason] += 1
        else:
            kept.pairs.append(pair)
    return kept


def _reason(source: int, reference: int, longest: int | None, ratio: float | None) -> str:
    """Why a pair of such lengths is left out; "" if it is not."""
    shorter, longer = sorted((source, reference))
    if not shorter:
        return EMPTY
    if longest is not None and longer > longest:
        return f"longer than {longest} symbols"
    if ratio is not None and longer > ratio * shorter:
        return f"with a side over {ratio:g} times as long as the other"
    return ""


def told(dropped: Counter[str], total: int) -> str:
    """A line for people: what was left out of how many, by reason; "" if nothing was.

    >>> told(Counter({"longer than 5 symbols": 2, "with an empty side": 1}), 1700)
    'left out 3 of 1,700 training pairs: 2 longer than 5 symbols, 1 with an empty side'
    """
    if not dropped.total():
        return ""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.most_common())
    return f"left out {dropped.total():,} of {total:,} training pairs: {reasons}"
