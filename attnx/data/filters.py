"""Leaves out of the training pairs what is too long or too lopsided, and says what and how many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from attnx.data.examples import Pair
from attnx.data.readers.parallel_corpus import Sentence

EMPTY = "with an empty side"


def unblank(sentences: Iterable[Sentence], dropped: Counter[str]) -> Iterator[Sentence]:
    """Pass on sentences with something on both sides; ``dropped`` counts the others, by reason."""
    for sentence in sentences:
        if sentence.blank:
            dropped[EMPTY] += 1
        else:
            yield sentence


def fitting(
    pairs: Iterable[Pair], dropped: Counter[str], longest: int | None = None, ratio: float | None = None
) -> Iterator[Pair]:
    """Pass on pairs without an empty side, a side that is too long, or sides of too unlike lengths.

    A pair of several references has to fit with each.

    Args:
        pairs: cut into symbols.
        dropped: counts the others by reason; a pair counts once, for the first that holds.
        longest: how many symbols a side may have; None for any number.
        ratio: how many times as long as its other side a side may be; None for any.

    >>> short, long = Pair(("a",), (("x", "y"),)), Pair(("a", "b", "c"), (("x",) * 7,))
    >>> dropped: Counter[str] = Counter()
    >>> len(list(fitting([short, long, short], dropped, longest=5))), dropped
    (2, Counter({'longer than 5 symbols': 1}))
    """
    for pair in pairs:
        reasons = (_reason(len(pair.source), len(reference), longest, ratio) for reference in pair.references)
        if reason := next(filter(None, reasons), None):
            dropped[reason] += 1
        else:
            yield pair


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
    most_first = sorted(dropped.items(), key=lambda item: (-item[1], item[0]))
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in most_first)
    return f"left out {dropped.total():,} of {total:,} training pairs: {reasons}"
