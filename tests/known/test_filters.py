"""Length filters of training pairs and their counts, by hand."""

from collections import Counter

import pytest

from attnx.data.examples import Pair
from attnx.data.readers.parallel_corpus import EMPTY_SIDE, Sentence, drop_blank, dropped_note, filter_by_length


def pair(source: int, *references: int) -> Pair:
    """A pair of sides that long."""
    return Pair(("s",) * source, tuple(("r",) * reference for reference in references))


def filter_pairs(
    pairs: list[Pair], longest: int | None = None, ratio: float | None = None
) -> tuple[list[Pair], Counter[str]]:
    """The pairs that fit, and how many do not, by reason."""
    dropped: Counter[str] = Counter()
    return list(filter_by_length(pairs, dropped, longest, ratio)), dropped


def test_each_reason_counts_once():
    """Of seven pairs: (3, 5) and (5, 3) fit; empty comes before long, long before lopsided."""
    pairs = [pair(3, 5), pair(0, 7), pair(7, 3), pair(2, 5), pair(5, 0), pair(5, 3), pair(1, 11)]
    fit, dropped = filter_pairs(pairs, longest=5, ratio=2)
    assert fit == [pairs[0], pairs[5]]
    assert dropped == {EMPTY_SIDE: 2, "longer than 5 symbols": 2, "with a side over 2 times as long as the other": 1}
    assert dropped_note(dropped, 7).startswith(
        "left out 5 of 7 training pairs: 2 longer than 5 symbols, 2 with an empty side"
    )


@pytest.mark.parametrize(("longest", "ratio", "count"), [(None, None, 3), (5, None, 2), (4, None, 0), (None, 1, 1)])
def test_limits_are_inclusive(longest, ratio, count):
    """A side may have as many symbols as the limit; only given limits apply."""
    assert len(filter_pairs([pair(5, 5), pair(2, 5), pair(7, 2)], longest, ratio)[0]) == count


def test_a_ratio_may_be_a_fraction():
    """5 is 2.5 times 2, and more than 2.4 times."""
    assert filter_pairs([pair(2, 5)], ratio=2.5)[0]
    assert not filter_pairs([pair(2, 5)], ratio=2.4)[0]


def test_every_reference_has_to_fit():
    assert filter_pairs([pair(3, 5, 2)], longest=5)[0] == [pair(3, 5, 2)]
    assert filter_pairs([pair(3, 5, 7)], longest=5)[1] == {"longer than 5 symbols": 1}


def test_an_empty_side_never_fits():
    assert filter_pairs([pair(0, 2), pair(2, 0), pair(0, 0)])[1] == {EMPTY_SIDE: 3}


def test_nothing_dropped_is_not_reported():
    assert dropped_note(filter_pairs([pair(2, 2)], longest=2)[1], 1) == ""


def test_equally_frequent_reasons_have_a_fixed_order():
    """Not that in which they were met, which differs between one reading and several."""
    counts = Counter({"with an empty side": 3, "longer than 5 symbols": 3, "zzz": 5})
    assert dropped_note(counts, 11) == dropped_note(Counter(dict(reversed(counts.items()))), 11)


def test_blank_sentences_are_counted_as_empty():
    dropped: Counter[str] = Counter()
    lines = [Sentence("a", ("b",)), Sentence(" ", ("b",)), Sentence("a", ("b", "\t"))]
    assert list(drop_blank(lines, dropped)) == lines[:1]
    assert dropped == {EMPTY_SIDE: 2}
