"""Splits: the number of a word by hand, and that nothing but the word moves it."""

from __future__ import annotations

import pytest

from attnx.data.examples import Pair
from attnx.data.split import Splits, hold_out, place, split_by_word
from attnx.errors import UserError

PAIRS = [Pair(tuple(f"word{number}"), (("W",), (str(number),))) for number in range(2003)]


def test_the_number_of_a_word() -> None:
    """SHA-256 of "abc" (FIPS 180-2, example B.1) begins with ba7816bf 8f01cfea; its first 53 bits count."""
    assert place(("a", "b", "c")) == (0xBA7816BF8F01CFEA >> 11) / 2**53
    assert place(("a", "b", "c")) == pytest.approx(0xBA78 / 0x10000, abs=1 / 0x10000)


def test_the_parts_by_hand() -> None:
    """With 0xba78 / 0x10000 = 0.7284 "abc" is valid above a share of 0.2716, and test above 0.7284."""
    abc = Pair(("a", "b", "c"), (("x",), ("y",)))
    assert split_by_word([abc], valid=0.28, test=0.7) == Splits([], [abc], [])
    assert split_by_word([abc], valid=0.27, test=0.72) == Splits([abc], [], [])
    assert split_by_word([abc], valid=0.26, test=0.73) == Splits([], [], [abc])
    assert hold_out([abc], 0.27) == ([abc], [])
    assert hold_out([abc], 0.28) == ([], [abc])


def test_every_pair_lands_once_in_the_order_of_the_data() -> None:
    """References stay with their word, and the parts are as large as asked (within five deviations)."""
    splits = split_by_word(PAIRS, valid=0.1, test=0.2)
    assert sorted(pair for part in splits for pair in part) == sorted(PAIRS)
    for part, share in zip(splits, (0.7, 0.1, 0.2), strict=True):
        assert part == [pair for pair in PAIRS if pair in part]
        assert abs(len(part) - share * 2003) < 5 * (2003 * share * (1 - share)) ** 0.5


def test_a_word_stays_whatever_else_there_is() -> None:
    """Half of the data, backwards, falls into the same parts; so does valid beside another test share."""
    whole = split_by_word(PAIRS, valid=0.1, test=0.2)
    half = split_by_word(PAIRS[1000::-1], valid=0.1, test=0.2)
    for part, expected in zip(half, whole, strict=True):
        assert part == [pair for pair in PAIRS[1000::-1] if pair in expected]
    assert split_by_word(PAIRS, valid=0.1, test=0.0).valid == whole.valid


def test_hold_out_agrees_with_the_split() -> None:
    """What is held out is what the split calls valid."""
    kept, held = hold_out(PAIRS, 0.1)
    splits = split_by_word(PAIRS, valid=0.1, test=0.0)
    assert (kept, held) == (splits.train, splits.valid)
    assert hold_out(PAIRS, 0) == (PAIRS, [])


@pytest.mark.parametrize(("valid", "test"), [(-0.1, 0.1), (0.1, -0.1), (0.5, 0.5), (1.5, 0.1), (float("nan"), 0)])
def test_impossible_shares_are_refused(valid: float, test: float) -> None:
    """Before anything is split."""
    with pytest.raises(UserError, match=f"valid={valid} and test={test}"):
        split_by_word(PAIRS, valid, test)


@pytest.mark.parametrize("share", [-0.1, 1, float("nan")])
def test_impossible_share_to_hold_out_is_refused(share: float) -> None:
    """All of the data cannot be held out."""
    with pytest.raises(UserError, match="the share to hold out"):
        hold_out(PAIRS, share)
