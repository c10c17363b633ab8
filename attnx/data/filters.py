"""Filters of training pairs by length, with counts of what they drop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from attnx.data.examples import Pair
from attnx.data.readers.parallel_corpus import Sentence

EMPTY_SIDE = "with an empty side"


def drop_blank(sentences: Iterable[Sentence], dropped: Counter[str]) -> Iterator[Sentence]:
    """Yield sentences without a blank side; ``dropped`` counts the others by reason."""
    for sentence in sentences:
        if sentence.is_blank:
            dropped[EMPTY_SIDE] += 1
        else:
            yield sentence


def filter_by_length(
    pairs: Iterable[Pair], dropped: Counter[str], max_length: int | None = None, max_ratio: float | None = None
) -> Iterator[Pair]:
    """Yield pairs without an empty side, a side that is too long, or sides of too different lengths.

    A pair of several references is dropped if any of them is. ``dropped`` counts dropped pairs by their first reason;
    ``max_length`` is the most symbols of a side, ``max_ratio`` of a side per symbol of the other.
    """
    for pair in pairs:
        if reason := drop_reason(pair, max_length, max_ratio):
            dropped[reason] += 1
        else:
            yield pair


def drop_reason(pair: Pair, max_length: int | None, max_ratio: float | None) -> str:
    """Return why :func:`filter_by_length` drops a pair; "" if it does not."""
    reasons = (_reason(len(pair.source), len(reference), max_length, max_ratio) for reference in pair.references)
    return next(filter(None, reasons), "")


def _reason(source: int, reference: int, max_length: int | None, max_ratio: float | None) -> str:
    """Return why a pair of such lengths is dropped; "" if it is not."""
    shorter, longer = sorted((source, reference))
    if not shorter:
        return EMPTY_SIDE
    if max_length is not None and longer > max_length:
        return f"longer than {max_length} symbols"
    if max_ratio is not None and longer > max_ratio * shorter:
        return f"with a side over {max_ratio:g} times as long as the other"
    return ""


def dropped_note(dropped: Counter[str], total: int) -> str:
    """Return a note on the dropped pairs by reason; "" if there are none.

    >>> dropped_note(Counter({"longer than 5 symbols": 2, "with an empty side": 1}), 1700)
    'left out 3 of 1,700 training pairs: 2 longer than 5 symbols, 1 with an empty side'
    """
    if not dropped.total():
        return ""
    most_first = sorted(dropped.items(), key=lambda item: (-item[1], item[0]))
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in most_first)
    return f"left out {dropped.total():,} of {total:,} training pairs: {reasons}"
