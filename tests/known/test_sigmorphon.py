"""Multilingual word lists: folders, the task that reads them, and the real data if available."""

import gzip
import os
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnx.data.examples import Pair, has_languages, read_languages
from attnx.data.splits import hash_fraction
from attnx.data.vocabulary import SPECIALS
from attnx.errors import UserError
from attnx.inference.predictor import metric_results
from attnx.metrics.error_rates import PhoneErrorRate
from attnx.metrics.per_tag import PerTag
from attnx.tasks.g2p import G2p
from tests.refusal import refusal_message

Write = Callable[[dict[str, str]], Path]

# Three languages that write "ab", one of them twice; each word's phones say whose it is.
WORDS = {
    "train/ita_train.tsv": "ab\ta b\nba\tb a\n",
    "train/fre_train.tsv": "ab\tA B\nb\tB\nab\tA P\ncab\tS A B\n",
    "train/bos_train.tsv": "ab\taa bb\n",
}


@pytest.fixture
def write(tmp_path):
    """Write files, named by their paths, into the test's own folder, and return that."""

    def files(contents: dict[str, str]) -> Path:
        for name, text in contents.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return tmp_path

    return files


def pair(tag: str, word: str, *references: str) -> Pair:
    return Pair(tuple(word), tuple(tuple(reference.split()) for reference in references), tag)


def test_languages_of_a_folder_alternate(write):
    """Repeated words of a language are one pair, those of two languages two; languages are in alphabetical order."""
    assert read_languages(write(WORDS) / "train") == [
        pair("bos", "ab", "aa bb"),
        pair("fre", "ab", "A B", "A P"),
        pair("ita", "ab", "a b"),
        pair("fre", "b", "B"),
        pair("ita", "ba", "b a"),
        pair("fre", "cab", "S A B"),
    ]


def test_other_files_of_the_folder_are_ignored(write):
    """Also read: packed lists, a name that is the code alone, one with a script or a region in it."""
    folder = write(
        {
            "README": "no list",
            "notes_train.txt": "nor this",
            ".hid_train.tsv": "nor this",
            "deep/gre_train.tsv": "nor this",
            "ita.tsv": "a\ta\n",
            "eng_us_train.tsv": "b\tb\n",
            "ady_train.tsv.gz": "c\tc\n",
            "pt-BR_train.tsv": "d\td\n",
        }
    )
    assert [pair.tag for pair in read_languages(folder)] == ["ady", "eng_us", "ita", "pt-BR"]


def test_a_code_with_underscores_is_one_language(write):
    """As of later shared tasks; the same in every part, whatever the part is called, and where a star stands for it."""
    codes = ["por_latn_bz", "por_latn_po", "wel_nw"]
    names = ["train/{}_train.tsv", "dev/{}_dev.tsv.gz", "test/{}.tsv", "valid/{}.valid.tsv", "gold/{}_broad_gold.tsv"]
    folder = write({name.format(code): "a\ta\n" for code in codes for name in names})
    for path in (
        "train",
        "train/*",
        "train/*_train.tsv",
        "dev",
        "test",
        "test/*.tsv",
        "valid",
        "gold/*_broad_gold.tsv",
    ):
        assert [pair.tag for pair in read_languages(folder / path)] == codes, path
    assert [pair.tag for pair in read_languages(folder / "train", ["por_latn_po"])] == ["por_latn_po"]
    assert refusal_message(lambda: read_languages(folder / "train", ["por_latn_pt"])).endswith(
        "has no file of the language 'por_latn_pt'; did you mean por_latn_po or por_latn_bz?"
    )
    assert [pair.tag for pair in read_languages(folder / "gold")] == [f"{code}_broad_gold" for code in codes]


def test_a_pattern_selects_files_of_a_folder(write):
    folder = write({"ita_train.tsv": "a\ta\n", "ita_dev.tsv": "b\tb\n", "fre_train.tsv": "c\tc\n"})
    assert read_languages(folder / "*_train.tsv") == [pair("fre", "c", "c"), pair("ita", "a", "a")]
    assert read_languages(folder / "ita_d*") == [pair("ita", "b", "b")]
    assert read_languages(folder / "**_dev.tsv") == [pair("ita", "b", "b")]
    with pytest.raises(UserError, match="holds no word lists"):
        read_languages(folder / "nowhere" / "*.tsv")
    for path, many in [(folder, True), (folder / "*.tsv", True), (folder / "ita_dev.tsv", False)]:
        assert has_languages(path) is many


def test_languages_can_be_selected(write):
    folder = write(WORDS) / "train"
    assert {pair.tag for pair in read_languages(folder, ["ita", "bos"])} == {"ita", "bos"}
    assert read_languages(folder, ["ita", "ita"]) == read_languages(folder, ["ita"])


def test_unicode_composition_merges_two_spellings(write):
    """The letter with an accent, and the letter followed by an accent."""
    folder = write({"fre_train.tsv": "\u00e9\te\ne\u0301\tE\n"})
    assert read_languages(folder) == [pair("fre", "\u00e9", "e"), pair("fre", "e\u0301", "E")]
    assert read_languages(folder, compose=True) == [pair("fre", "\u00e9", "e", "E")]


def test_mistakes_are_reported_with_file_and_line(write):
    folder = write(WORDS) / "train"
    ita = folder / "ita_train.tsv"
    for content, line, wrong in [
        (b"ab\ta b\ncaf\xe9\tk", 2, "byte 0xe9 at byte 4 of the line is not UTF-8"),
        (b"ab", 1, "no tab in 'ab'"),
        (b"\n\nab\t\n", 3, "the pronunciation in column 2 of 'ab' is empty"),
        (b"\ta", 1, "the word (the first column) is empty"),
    ]:
        ita.write_bytes(content)
        assert refusal_message(lambda: read_languages(folder)).startswith(f"{ita}:{line}: {wrong}")
    ita.write_bytes(b"")
    assert refusal_message(lambda: read_languages(folder)).startswith(f"{ita}: holds no pairs")


def test_unreadable_folders_are_reported(write):
    folder = write(WORDS)
    message = refusal_message(lambda: read_languages(folder / "train", ["itaa"]))
    assert message == f"{folder / 'train'}: has no file of the language 'itaa'; did you mean ita?"
    for empty in (folder, folder / "nowhere" / "*.tsv"):
        assert refusal_message(lambda empty=empty: read_languages(empty)).startswith(f"{empty}: holds no word lists")
    write({"train/ita_dev.tsv": "b\tb\n"})
    message = refusal_message(lambda: read_languages(folder / "train"))
    assert message.startswith(f"{folder / 'train'}: ita_dev.tsv and ita_train.tsv are both of the language 'ita'")
    write({"odd/_train.tsv": "b\tb\n"})
    message = refusal_message(lambda: read_languages(folder / "odd"))
    assert message.startswith(f"{folder / 'odd' / '_train.tsv'}: its name does not start with a language")


@pytest.fixture
def folders(write):
    """The three languages with validation and test words; "ab" is trained on in all, and judged in none."""
    parts = {"dev": "a", "test": "bb"}
    judged = {f"{part}/{tag}_{part}.tsv": f"{word}\tA\n" for part, word in parts.items() for tag in ("ita", "fre")}
    return write({**WORDS, **judged})


def task(folder: Path, **options: Any) -> G2p:
    paths = {part: str(folder / name) for part, name in (("train", "train"), ("valid", "dev"), ("test", "test"))}
    return G2p(**{**paths, **options})


def test_the_task_reads_three_folders(folders, monkeypatch):
    """Tags are those of the training split; a language may lack words to be judged on. Variables are filled in."""
    monkeypatch.setenv("SOME_DATA", str(folders))
    for item in (task(folders), G2p("$SOME_DATA/train", "$SOME_DATA/dev", "${SOME_DATA}/test")):
        data = item.load()
        assert data.tags == ("bos", "fre", "ita")
        assert len(data.pairs.train) == 6
        assert data.pairs.valid == [pair("fre", "a", "A"), pair("ita", "a", "A")]
        assert data.pairs.test == [pair("fre", "bb", "A"), pair("ita", "bb", "A")]
        assert item.monitor == "valid_per_macro"


def test_one_file_has_no_tags(folders):
    """Everything is as it was: plain rates, watched by their plain name."""
    single = G2p(*(str(folders / f"{part}/fre_{part}.tsv") for part in ("train", "dev", "test")))
    data = single.load()
    assert data.tags == ()
    assert single.monitor == "valid_per"
    metrics = single.metrics(data.tags)
    assert isinstance(metrics["per"], PhoneErrorRate)
    assert data.pairs.train[0] == pair("", "ab", "A B", "A P")


def test_the_tasks_metrics_by_hand(folders):
    """A right French word, an Italian word with one wrong phone of two, and an empty Bosnian output."""
    import torch

    single = task(folders)
    metrics = torch.nn.ModuleDict(single.metrics(single.load().tags))
    assert all(isinstance(metric, PerTag) for metric in metrics.values())
    single.update(metrics, [["A", "B"], ["a", "c"]], [pair("fre", "ab", "A B"), pair("ita", "ab", "a b")])
    scores = {name: float(value) for name, value in metric_results("test", metrics).items()}
    by_hand = {"test_per_micro": 25.0, "test_per_fre": 0.0, "test_per_ita": 50.0}
    assert scores == pytest.approx({**by_hand, "test_wer_micro": 50.0, "test_wer_fre": 0.0, "test_wer_ita": 100.0})


def test_selected_languages_apply_to_every_part(folders):
    data = task(folders, languages=["ita"]).load()
    assert data.tags == ("ita",)
    assert {pair.tag for part in data.pairs for pair in part} == {"ita"}
    message = refusal_message(task(folders, languages=["ita", "bos"]).load)
    assert message == f"{folders / 'test'}: has no file of the language 'bos'; choose from fre, ita"


def test_words_are_distinguished_by_language(folders, write):
    """Bosnian "b" is another word than French "b", which is trained on."""
    write({"test/bos_test.tsv": "b\tB\n"})
    first, second = task(folders), task(folders)
    assert ("bos", ("b",)) in {(pair.tag, pair.source) for pair in first.load().pairs.test}
    assert not any("also in the training split" in note for note in first.notes)
    write({"test/fre_test.tsv": "b\tB\n"})
    pairs = second.load().pairs.test
    assert f"1 of {len(pairs)} sources of the test split are also in the training split" in second.notes


def test_an_unknown_test_language_is_refused(folders, write):
    write({"dev/rum_dev.tsv": "b\tB\n"})
    assert "'rum'" in refusal_message(task(folders).load)
    assert "without a tag" in refusal_message(task(folders, valid=str(folders / "test/fre_test.tsv")).load)


@pytest.mark.parametrize("kind", ["folder", "pattern"])
def test_the_word_alone_decides_what_is_held_out(write, kind):
    """The same words in every language, in every writing, with a token before them, and in a file of its own."""
    words = [f"\u00e9{first}{second}" for first in "abcdefgh" for second in "abcdefgh"]
    text = "".join(f"{word}\tx\n" for word in words)
    folder = write({"all/fre_all.tsv": text, "all/ita_all.tsv": text})
    path = str(folder / "all" / ("*_all.tsv" if kind == "pattern" else ""))
    expected = {word for word in words if hash_fraction(word) >= 0.8}
    assert 0 < len(expected) < len(words)
    for options in ({"graphemes": "nfc"}, {"graphemes": "nfd", "tag_token": True}, {"graphemes": "jamo"}, {}):
        valid = G2p(path, holdout=0.2, **options).load().pairs.valid
        for tag in ("fre", "ita"):
            saved = ["".join(pair.source).removeprefix(f"<tag:{tag}>") for pair in valid if pair.tag == tag]
            assert {unicodedata.normalize("NFC", word) for word in saved} == expected
            assert len(saved) == len(expected)
    alone = G2p(str(folder / "all/fre_all.tsv"), holdout=0.2).load().pairs.valid
    assert {"".join(item.source) for item in alone} == expected


def test_graphemes_split_data_and_user_input(write):
    folder = write({"train/fre_train.tsv": "\u00e9\te\n", "dev/fre_dev.tsv": "a\te\n", "test/fre_test.tsv": "b\te\n"})
    for writing, letters in (("as_is", "\u00e9"), ("nfc", "\u00e9"), ("nfd", "e\u0301"), ("jamo", "\u00e9")):
        single = task(folder, graphemes=writing)
        assert single.load().pairs.train[0].source == tuple(letters)
        assert single.tokenize("\u00e9") == tuple(letters)
    assert G2p().tokenize("e\u0301") == ("e", "\u0301")


def test_a_token_marks_the_language(folders):
    """A symbol of its own before the letters, in data and questions; nothing that is typed can be taken for it."""
    single = task(folders, tag_token=True)
    data = single.load()
    assert data.pairs.train[0] == Pair(("<tag:bos>", "a", "b"), (("aa", "bb"),), "bos", identity=("a", "b"))
    assert set(data.source.symbols) == {*SPECIALS, *"abc", "<tag:bos>", "<tag:fre>", "<tag:ita>"}
    assert single.tokenize("ab", "ita") == ("<tag:ita>", "a", "b")
    assert single.tokenize("<tag:ita>", "fre")[1:] == tuple("<tag:ita>")
    assert "the language is missing" in refusal_message(lambda: single.tokenize("ab"))


def test_contradictions_are_refused(folders):
    ita = str(folders / "train/ita_train.tsv")
    assert "task.languages" in refusal_message(G2p(ita, languages=["ita"]).load)
    assert "needs languages" in refusal_message(G2p(ita, tag_token=True).load)
    assert "needs languages" in refusal_message(G2p(tag_token=True).load)


@pytest.mark.needs_data("sigmorphon2020/train")
def test_the_fifteen_languages_have_their_published_sizes():
    """The counts of the shared task, 3600, 450 and 450 words a language, and what its pages say of the letters: NFC."""
    folder = Path(os.environ["ATTNX_DATA"], "sigmorphon2020")
    single = task(folder, valid=str(folder / "dev"))
    data = single.load()
    assert " ".join(data.tags) == "ady arm bul dut fre geo gre hin hun ice jpn kor lit rum vie"
    for part, count in zip(data.pairs, (3600, 450, 450), strict=True):
        assert Counter(item.tag for item in part) == dict.fromkeys(data.tags, count)
        assert all(unicodedata.is_normalized("NFC", "".join(item.source)) for item in part)
        assert {item.tag for item in part[:15]} == set(data.tags)
    assert pair("fre", "abandonner", "a b \u0251\u0303 d \u0254 n e") in data.pairs.train
    assert data.pairs == task(folder, graphemes="nfc").load().pairs
    jamo = [item for item in task(folder, graphemes="jamo").load().pairs.train if item.tag == "kor"]
    assert jamo[0].source == ("\u1100", "\u1161", "\u1100", "\u1161", "\u11b7")  # 가감
