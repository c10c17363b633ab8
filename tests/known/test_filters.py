"""What is left out of the training pairs, and what is said of it, by hand."""

from __future__ import annotations

import pytest

from attnx.data.filters import EMPTY, keep_fitting, told
from attnx.data.pairs import Pair


def pair(source: int, *references: int) -> Pair:
    """A pair of sides that long."""
    return Pair(("s",) * source, tuple(("r",) * reference for reference in references))


def test_each_reason_counts_once() -> None:
    """Of seven pairs: (3, 5) and (5, 3) fit; empty comes before long, long before lopsided."""
    pairs = [pair(3, 5), pair(0, 7), pair(7, 3), pair(2, 5), pair(5, 0), pair(5, 3), pair(1, 11)]
    kept = keep_fitting(pairs, longest=5, ratio=2)
    assert kept.pairs == [pairs[0], pairs[5]]
    assert kept.dropped == {EMPTY: 2, "longer than 5 symbols": 2, "with a side over 2 times as long as the other": 1}
    assert told(kept.dropped, 7).startswith("left out 5 of 7 training pairs: 2 with an empty side, 2 longer than 5")


@pytest.mark.parametrize(("longest", "ratio", "fitting"), [(None, None, 3), (5, None, 2), (4, None, 0), (None, 1, 1)])
def test_limits_are_reached_not_passed(longest: int | None, ratio: float | None, fitting: int) -> None:
    """A side may have as many symbols as the limit; only what is asked for is looked at."""
    assert len(keep_fitting([pair(5, 5), pair(2, 5), pair(7, 2)], longest, ratio).pairs) == fitting


def test_a_fraction_as_ratio() -> None:
    """5 is 2.5 times 2, and more than 2.4 times."""
    assert keep_fitting([pair(2, 5)], ratio=2.5).pairs
    assert not keep_fitting([pair(2, 5)], ratio=2.4).pairs


def test_every_reference_has_to_fit() -> None:
    assert keep_fitting([pair(3, 5, 2)], longest=5).pairs == [pair(3, 5, 2)]
    assert keep_fitting([pair(3, 5, 7)], longest=5).dropped == {"longer than 5 symbols": 1}


def test_an_empty_side_never_fits() -> None:
    assert keep_fitting([pair(0, 2), pair(2, 0), pair(0, 0)]).dropped == {EMPTY: 3}


def test_nothing_dropped_nothing_said() -> None:
    assert told(keep_fitting([pair(2, 2)], longest=2).dropped, 1) == ""
