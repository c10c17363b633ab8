"""Tokenizers: every one is invertible; what each learns, by hand."""

import itertools
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnx import registry
from attnx.errors import UserError
from tests.refusal import refused

# In many scripts and with all that may stand around a word.
TEXTS = [
    "l'ami (oui, l'ami) dit : « non ! »",
    '"Nein", sagt sie; 1,000.5 saftig-grüne Äpfel...',
    "snake_case a.b -- c/d #1 50% x=y",
    "हिन्दी में लिखा हुआ वाक्य।",
    "می‌خواهم بروم؟",
    "我們在這裡。 你好\uff01",
    "e\u0301te\u0301 et été",
    "👩\u200d🚀 flies 👍🏽",
    "((a)) 'b' ,c ,d, .. .",
]
LEARNED = ("bpe", "unigram", "wordpiece", "bytes")
every_tokenizer = pytest.mark.parametrize("name", registry.names("tokenizer"))
# Any text with single spaces, without the two characters that mark what joins what.
texts = st.text().map(lambda text: " ".join(text.replace("▁", "").replace("￭", "").split()))


def train_tokenizer(name: str, listed: list[str], size: int = 503) -> Any:
    tokenizer = registry.build("tokenizer", name)
    tokenizer.train(listed, size)
    return tokenizer


@every_tokenizer
def test_detokenization_inverts_tokenization(name):
    tokenizer = train_tokenizer(name, TEXTS)
    for text in TEXTS:
        assert tokenizer.detokenize(tokenizer.tokenize(text)) == text


@pytest.mark.parametrize("name", ["word", "character", "bytes"])
@given(text=texts)
def test_detokenization_inverts_tokenization_of_any_text(name, text, tokenizers):
    """Never seen before, too."""
    assert tokenizers[name].detokenize(tokenizers[name].tokenize(text)) == text


@pytest.fixture(scope="module")
def tokenizers():
    return {name: train_tokenizer(name, TEXTS) for name in registry.names("tokenizer")}


@every_tokenizer
def test_the_symbols_are_those_of_tokenization(name, tokenizers):
    """Sorted, unique, at most as many as requested; they cover the training text."""
    symbols = tokenizers[name].symbols
    assert list(symbols) == sorted(set(symbols))
    assert 0 < len(symbols) <= 503
    assert {symbol for text in TEXTS for symbol in tokenizers[name].tokenize(text)} <= set(symbols)
    assert not {"<pad>", "<bos>", "<eos>", "<unk>"} & set(symbols)


@every_tokenizer
def test_any_symbols_can_be_detokenized(name, tokenizers):
    """A model writes what it likes: nothing, halves of characters, words that no text has."""
    assert tokenizers[name].detokenize([]) == ""
    symbols = tokenizers[name].symbols
    for first in range(0, len(symbols), 7):
        text = tokenizers[name].detokenize(symbols[first : first + 7])
        assert text == " ".join(text.split())


@every_tokenizer
def test_a_saved_tokenizer_loads_equal(name, tokenizers, tmp_path):
    tokenizers[name].save(tmp_path / "one.tokenizer")
    loaded = registry.build("tokenizer", name)
    loaded.load(tmp_path / "one.tokenizer")
    assert loaded.symbols == tokenizers[name].symbols
    for text in [*TEXTS, "never seen: ẞ漢 qxz"]:
        symbols = tokenizers[name].tokenize(text)
        assert loaded.tokenize(text) == symbols
        assert loaded.detokenize(symbols) == tokenizers[name].detokenize(symbols)


@every_tokenizer
@pytest.mark.parametrize("content", [None, b"\x00\xffnonsense", b"{}"])
def test_an_unreadable_tokenizer_is_reported(name, content, tmp_path):
    path = tmp_path / "bad.tokenizer"
    if content is not None:
        path.write_bytes(content)
    with refused(f"{path}:..."):
        registry.build("tokenizer", name).load(path)


TRAIN = """
import json, sys
from attnx import registry

found = {}
for name in registry.names("tokenizer"):
    tokenizer = registry.build("tokenizer", name)
    tokenizer.train(json.loads(sys.argv[1]), 401)
    found[name] = [tokenizer.symbols, tokenizer.tokenize("l'ami, saftig-grüne Äpfel")]
print(json.dumps(found))
"""


def test_the_same_text_gives_the_same_symbols():
    """In another process, whatever its hash seed and its number of threads."""
    environment = {**os.environ, "PYTHONHASHSEED": "2", "RAYON_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", TRAIN, json.dumps(TEXTS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    here = {name: train_tokenizer(name, TEXTS, 401) for name in registry.names("tokenizer")}
    assert json.loads(done.stdout) == {
        name: [list(tokenizer.symbols), list(tokenizer.tokenize("l'ami, saftig-grüne Äpfel"))]
        for name, tokenizer in here.items()
    }


def test_words_and_marks_by_hand():
    """A mark says on which sides it had no space; a word never does, so it is the same symbol everywhere."""
    word = registry.build("tokenizer", "word")
    cuts = {
        "a b": ("a", "b"),
        "(a), b!": ("(￭", "a", "￭)", "￭,", "b", "￭!"),
        "l'ami": ("l", "￭'￭", "ami"),
        "«": ("«",),
        "a ... b": ("a", ".", "￭.", "￭.", "b"),
        "1.5 %": ("1", "￭.￭", "5", "%"),
        "हिन्दी।": ("हिन्दी", "￭।"),
        "e\u0301t": ("e\u0301t",),
        "क्\u200dय": ("क्\u200dय",),
        "a￭b": ("a", "￭■￭", "b"),
        "": (),
    }
    assert {text: word.tokenize(text) for text in cuts} == cuts
    assert word.detokenize(("￭,", "a", "￭￭", "(￭")) == ", a("


def test_rare_words_are_left_out():
    """b thrice, a and c twice: of equals the first in order."""
    word = train_tokenizer("word", ["c b a", "b a", "c b d"], size=2)
    assert word.symbols == ("a", "b")
    assert word.tokenize("d a") == ("d", "a")


def test_characters_by_hand():
    character = train_tokenizer("character", ["ab a", "a"], size=2)
    assert character.symbols == ("a", "b")  # three a, one b and one space: of equals the first in order
    assert character.tokenize("b a") == ("b", "▁", "a")
    assert character.detokenize("▁ab▁▁c▁") == "ab c"


@pytest.mark.parametrize(("name", "alphabet"), [("bpe", 6), ("bytes", 256)])
def test_the_most_frequent_pair_is_merged(name, alphabet):
    """Beside three words' beginnings, "ab" alone occurs more than once: with room for one merge, it is that."""
    plain, merged = (set(train_tokenizer(name, ["xab yab zab"], alphabet + extra).symbols) for extra in (0, 1))
    assert len(plain) == alphabet
    assert merged - plain == {"ab"}


def test_unigram_chooses_the_likeliest_segmentation(tokenizers):
    """Of all the ways to cut a word, by the sum of the pieces' log-probabilities."""
    tokenizer = train_tokenizer("unigram", ["lower lowest low slow slower slowest new newer newest"] * 3, 41)
    model = tokenizer._processor
    scores = {piece: model.get_score(model.piece_to_id(piece)) for piece in tokenizer.symbols}
    for word in ("▁slowest", "▁lower", "▁newest", "▁lowlow"):
        cuts = []
        for bars in itertools.product((0, 1), repeat=len(word) - 1):
            index = [0, *(place for place, bar in enumerate(bars, 1) if bar), len(word)]
            pieces = [word[start:end] for start, end in itertools.pairwise(index)]
            if all(piece in scores for piece in pieces):
                cuts.append((sum(scores[piece] for piece in pieces), pieces))
        assert len(cuts) > 1
        selected = list(tokenizer.tokenize(word[1:]))
        assert sum(scores[piece] for piece in selected) == pytest.approx(max(cuts)[0], abs=1e-4)


def test_wordpiece_separates_punctuation():
    """However often a word ends in one."""
    tokenizer = train_tokenizer("wordpiece", ["low. low. low."] * 3, 23)
    assert tokenizer.tokenize("low. low") == ("▁low", ".", "▁low")


def test_wordpiece_chooses_the_longest_piece():
    tokenizer = train_tokenizer("wordpiece", ["lower lowest low slow slower slowest"] * 3, 23)
    for word in ("lowest", "slower", "lowslow"):
        remaining = "▁" + word
        for piece in tokenizer.tokenize(word):
            longest = max((symbol for symbol in tokenizer.symbols if remaining.startswith(symbol)), key=len)
            assert piece == longest
            remaining = remaining.removeprefix(piece)
        assert remaining == ""


def test_unknown_text_depends_on_the_tokenizer():
    """A character never seen: a symbol of its own to SentencePiece, its bytes to bytes, the whole word to wordpiece."""
    cuts = {name: train_tokenizer(name, ["ab ab"], 263).tokenize("a漢 ab") for name in LEARNED}
    symbols = {name: train_tokenizer(name, ["ab ab"], 263).symbols for name in LEARNED}
    assert "漢" in cuts["bpe"]
    assert "漢" in cuts["unigram"]
    assert cuts["wordpiece"][0] == "<unk>"
    assert set(cuts["bytes"]) <= set(symbols["bytes"])


@pytest.mark.parametrize(("name", "needed"), [("bpe", 4), ("unigram", 4), ("wordpiece", 4), ("bytes", 256)])
def test_too_few_pieces_are_refused(name, needed):
    """Three letters and the mark of a space; 256 bytes."""
    with pytest.raises(UserError, match=f"task.vocab_size={needed - 1}: the tokenizer {name} needs {needed} or more"):
        train_tokenizer(name, ["ab c"], needed - 1)
    assert len(train_tokenizer(name, ["ab c"], needed).symbols) == needed


@pytest.mark.parametrize("name", ["bpe", "unigram"])
def test_texts_of_reserved_marks_alone_are_refused(name):
    """SentencePiece leaves them out."""
    for text in ("▁", "▅ x ▅"):
        with pytest.raises(UserError, match=f"task.tokenizer={name} learns nothing from the training texts"):
            train_tokenizer(name, [text])


@pytest.mark.parametrize(
    ("name", "package"),
    [("bpe", "sentencepiece"), ("unigram", "sentencepiece"), ("wordpiece", "tokenizers"), ("bytes", "tokenizers")],
)
def test_a_missing_package_is_reported(name, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError) as caught:
        train_tokenizer(name, TEXTS)
    assert f"task.tokenizer={name} needs {package}" in str(caught.value)
    assert "in the clone of attnx, pip install -c constraints.txt -e '.[translation]'" in str(caught.value)
