"""Splits: the hash of a word by hand; only the word decides its part."""

import unicodedata

import pytest

from attnx.data.examples import Pair
from attnx.data.splits import Splits, fold_text, hash_fraction, holdout_shares, split_by_hash
from attnx.errors import UserError
from attnx.tasks.g2p import G2p
from attnx.tasks.language_model import LanguageModel


def split(pairs: list[Pair], valid: float, test: float) -> Splits[Pair]:
    return split_by_hash(pairs, lambda pair: pair.source_text, valid, test)


PAIRS = [Pair(tuple(f"word{number}"), (("W",), (str(number),))) for number in range(2003)]


def test_the_hash_fraction_of_a_word():
    """SHA-256 of "abc" (FIPS 180-2, example B.1) begins with ba7816bf 8f01cfea; its first 53 bits count."""
    assert hash_fraction("abc") == (0xBA7816BF8F01CFEA >> 11) / 2**53
    assert hash_fraction("abc") == pytest.approx(0xBA78 / 0x10000, abs=1 / 0x10000)


def test_the_parts_by_hand():
    """With 0xba78 / 0x10000 = 0.7284 "abc" is valid above a share of 0.2716, and test above 0.7284."""
    abc = Pair(("a", "b", "c"), (("x",), ("y",)))
    assert split([abc], valid=0.28, test=0.7) == Splits([], [abc], [])
    assert split([abc], valid=0.27, test=0.72) == Splits([abc], [], [])
    assert split([abc], valid=0.26, test=0.73) == Splits([], [], [abc])


def test_every_pair_is_in_one_part_in_data_order():
    """References stay with their word, and the parts have the requested size (within five deviations)."""
    splits = split(PAIRS, valid=0.1, test=0.2)
    assert sorted(pair for part in splits for pair in part) == sorted(PAIRS)
    for part, share in zip(splits, (0.7, 0.1, 0.2), strict=True):
        assert part == [pair for pair in PAIRS if pair in part]
        assert abs(len(part) - share * 2003) < 5 * (2003 * share * (1 - share)) ** 0.5


def test_the_part_of_a_word_does_not_depend_on_other_words():
    """Half of the data, backwards, falls into the same parts; so does valid beside another test share."""
    complete = split(PAIRS, valid=0.1, test=0.2)
    half = split(PAIRS[1000::-1], valid=0.1, test=0.2)
    for part, expected in zip(half, complete, strict=True):
        assert part == [pair for pair in PAIRS[1000::-1] if pair in expected]
    assert split(PAIRS, valid=0.1, test=0.0).valid == complete.valid


def test_a_share_of_zero_holds_nothing_out():
    assert split(PAIRS, 0, 0) == Splits(PAIRS, [], [])


def test_shares_of_the_parts_without_a_file():
    assert holdout_shares(0.1, []) == (0.1, 0.2)
    assert holdout_shares(0.4, ["test"]) == (0.4, 0.0)
    assert holdout_shares(7.0, ["valid", "test"]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("holdout", "existing"), [(-0.1, []), (1 / 3, []), (0.5, ["valid"]), (1.0, ["test"]), (float("nan"), [])]
)
def test_impossible_shares_are_refused(holdout, existing):
    with pytest.raises(UserError, match=r"the held-out shares valid=.* must be 0 or more and sum to less than 1"):
        holdout_shares(holdout, existing)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_the_part_of_a_word_does_not_depend_on_its_unicode_form(form, tmp_path):
    """Of the file, nor of the letters."""
    path = tmp_path / "words.tsv"
    words = [f"{letter}\u00e9{number}" for letter in "abc" for number in range(67)]
    path.write_text("".join(f"{unicodedata.normalize(form, word)}\tA\n" for word in words), encoding="utf-8")
    expected = {word for word in words if hash_fraction(word) < 0.1}
    assert expected
    for graphemes in ("as_is", "nfc", "nfd"):
        pairs = G2p(train=str(path), graphemes=graphemes, holdout=0.05).load().pairs.test
        assert {unicodedata.normalize("NFC", pair.source_text) for pair in pairs} == expected


@pytest.mark.parametrize("options", [{"lower": True}, {"unicode_form": "nfkc"}, {"unicode_form": "none"}])
def test_the_part_of_a_text_does_not_depend_on_the_options_of_language_model(options, tmp_path):
    """By default it is the hash of the text in composed form; a note counts texts that differ only in case."""
    path = tmp_path / "texts.txt"
    texts = [f"{letter} \ufb01ne{number}" for letter in ("A", "a", "e\u0301") for number in range(67)]
    path.write_text("\n".join(texts), encoding="utf-8")
    expected = {fold_text(text) for text in texts if hash_fraction(unicodedata.normalize("NFC", text)) < 0.2}
    task = LanguageModel(train=str(path), holdout=0.1, **options)
    assert {fold_text(pair.texts[0]) for pair in task.load().pairs.test} == expected
    assert "sources of the test split are also in the training split" in task.notes[-1]
