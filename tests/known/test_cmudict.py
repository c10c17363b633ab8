"""The shipped dictionary has the words of its file; cleaning is tested on small entries."""

import gzip
import hashlib

import pytest

from attnx.data.examples import Pair
from attnx.data.readers import cmudict
from attnx.data.readers.cmudict import read_cmudict
from tests.refusal import refused

ENTRIES = b"""\
'bout B AW1 T
a AH0
a(2) EY1
a.m. EY2 EH1 M
aalborg AO1 L B AO0 R G # place, danish
abuse AH0 B Y UW1 S
abuse(2) AH0 B Y UW1 Z
abuse(3) AH1 B Y UW0 S
buenos-aires B W EH1 N
d'artagnan D AH0 R
nine9 N AY1 N
' P
"""


@pytest.fixture
def by_hand(tmp_path, monkeypatch):
    """Put a dictionary of twelve entries in the place of the shipped one."""
    path = tmp_path / "cmudict.dict.gz"
    path.write_bytes(gzip.compress(ENTRIES))
    monkeypatch.setattr(cmudict, "FILE", path)
    monkeypatch.setattr(cmudict, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def word_pair(word: str, *references: str) -> Pair:
    """Make a pair from plain text."""
    return Pair(tuple(word), tuple(tuple(reference.split()) for reference in references))


@pytest.mark.usefixtures("by_hand")
def test_words_are_cleaned():
    """Comments go, variants merge, the first and third `abuse` are equal without stress, four words drop."""
    assert read_cmudict() == [
        word_pair("'bout", "B AW T"),
        word_pair("a", "AH", "EY"),
        word_pair("aalborg", "AO L B AO R G"),
        word_pair("abuse", "AH B Y UW S", "AH B Y UW Z"),
        word_pair("d'artagnan", "D AH R"),
    ]
    assert word_pair("abuse", "AH0 B Y UW1 S", "AH0 B Y UW1 Z", "AH1 B Y UW0 S") in read_cmudict(stress=True)


def test_a_changed_or_missing_file_is_refused(by_hand):
    """One more byte is enough; an installation without the data says so."""
    by_hand.write_bytes(by_hand.read_bytes() + b"\n")
    with refused(f"{by_hand}: has SHA-256 ..."):
        read_cmudict()
    by_hand.unlink()
    with refused(f"{by_hand}: no such file"):
        read_cmudict()


def test_the_shipped_dictionary_is_complete():
    """Known words, the 39 phones of American English, letters and apostrophes alone, each word once."""
    pairs = read_cmudict()
    words = {"".join(pair.source): pair for pair in pairs}
    assert len(words) == len(pairs)
    assert words["cat"] == word_pair("cat", "K AE T")
    assert words["tomato"] == word_pair("tomato", "T AH M EY T OW", "T AH M AA T OW")
    assert len({phone for pair in pairs for reference in pair.references for phone in reference}) == 39
    assert {letter for pair in pairs for letter in pair.source} == set("abcdefghijklmnopqrstuvwxyz'")


def test_the_docstring_states_the_counts():
    """The counts in the docstring are those of the file: all entries, the dropped ones, words, references."""
    lines = gzip.decompress(cmudict.FILE.read_bytes()).decode().splitlines()
    written = [line.split()[0].split("(")[0] for line in lines]
    clean_words = [w for w in written if set(w) <= set("abcdefghijklmnopqrstuvwxyz'") and set(w) != {"'"}]
    bare, stressed = (sum(len(pair.references) for pair in read_cmudict(stress)) for stress in (False, True))
    docstring = read_cmudict.__doc__ or ""
    for count in (len(lines), len(lines) - len(clean_words), len(set(clean_words)), bare, stressed):
        assert f"{count:,}".replace(",", " ") in docstring


def test_the_file_has_no_time_stamp_and_ships_with_its_license():
    """Bytes 4 to 8 of a gzip header are its time; README and license tell where the file is from."""
    assert cmudict.FILE.read_bytes()[4:8] == bytes(4)
    assert cmudict.SHA256 in cmudict.FILE.with_name("README.md").read_text()
    assert "Carnegie Mellon University" in cmudict.FILE.with_name("LICENSE").read_text()
