"""Vocabularies: ids by hand, round trips, and every invalid saved file."""

import pickle

import pytest

from attnx.data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from attnx.errors import UserError
from tests.refusal import refused

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")


def test_specials_come_first_and_symbols_are_sorted():
    """Order and repetition of the data leave no trace."""
    assert Vocabulary.of(["cab", "bb"]).symbols == (*SPECIALS, "a", "b", "c")
    assert Vocabulary.of(["bb", "cab"]) == Vocabulary.of([["c"], ["b"], ["a"]])
    assert len(Vocabulary.of([])) == 4


def test_symbols_are_encoded():
    """A is 4, b is 5; what is not known is 3, the end is 2."""
    letters = Vocabulary.of(["ab"])
    assert letters.encode("bad") == [5, 4, UNK]
    assert letters.encode("bad", end=True) == [5, 4, UNK, EOS]
    assert letters.encode([], end=True) == [EOS]


def test_decode_stops_at_the_end_and_drops_padding():
    """An unknown symbol stays visible."""
    letters = Vocabulary.of(["ab"])
    assert letters.decode([BOS, 5, PAD, UNK, 4, EOS, 5, 99]) == ["b", "<unk>", "a"]


@pytest.mark.parametrize("name", SPECIALS)
def test_a_symbol_named_like_a_special_is_refused_in_data_and_unknown_in_text(name):
    """Text can never forge an end or a padding."""
    with pytest.raises(UserError, match=f"the symbol '{name}'"):
        Vocabulary.of([["a", name]])
    assert Vocabulary.of(["a"]).encode([name, "a"]) == [UNK, 4]


@pytest.mark.parametrize(
    ("symbols", "wrong"),
    [
        (("a", *SPECIALS), "must begin with"),
        (SPECIALS[:3], "must begin with"),
        ((*SPECIALS, "a", "b", "a"), "'a' is in the vocabulary twice"),
        ((*SPECIALS, "<eos>"), "'<eos>' is in the vocabulary twice"),
    ],
)
def test_a_wrong_table_is_refused(symbols, wrong):
    """Both rules of the table are checked wherever it comes from."""
    with pytest.raises(UserError, match=wrong):
        Vocabulary(symbols)


def test_a_vocabulary_survives_saving_and_pickling(tmp_path):
    """Letters outside ASCII, a quote, a newline and a space come back; the signature tells other letters apart."""
    vocabulary = Vocabulary.of(["æñ", '"\n ', "日"])
    vocabulary.save(tmp_path / "letters.json")
    assert Vocabulary.load(tmp_path / "letters.json") == vocabulary
    assert vocabulary.signature != Vocabulary.of(["æñ", '"\n ', "月"]).signature
    assert vocabulary.encode("日") == pickle.loads(pickle.dumps(vocabulary)).encode("日")


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"[", ":1: not valid JSON"),
        (b"\xff", ":1: not UTF-8 text"),
        (b'{"a": 1}', "expected a JSON list of strings"),
        (b'["<pad>", "<bos>", "<eos>", "<unk>", 7]', "expected a JSON list of strings"),
        (b'["a"]', "must begin with"),
        (b'["<pad>", "<bos>", "<eos>", "<unk>", "a", "a"]', "'a' is in the vocabulary twice"),
    ],
)
def test_a_malformed_file_is_reported(tmp_path, content, wrong):
    """The message begins with the path."""
    path = tmp_path / "letters.json"
    path.write_bytes(content)
    with refused(f"{path}...{wrong}..."):
        Vocabulary.load(path)


def test_a_missing_file_and_a_folder_are_reported(tmp_path):
    """Neither ends in a traceback."""
    for path, wrong in ((tmp_path / "none.json", "no such file"), (tmp_path, "cannot be read: Is a directory")):
        with refused(f"{path}: {wrong}"):
            Vocabulary.load(path)
