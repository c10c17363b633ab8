"""Sentences and translations: valid files, the line of an invalid one, and held-out splits."""

import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from attnx.data.readers.hugging_face import open_dataset
from attnx.data.readers.lines import read_lines
from attnx.data.readers.parallel_corpus import Sentence, read_parallel
from attnx.data.splits import SentenceHoldout, Splits, fold_text, overlap_notes, split_sentences
from attnx.errors import UserError
from attnx.tasks.translation import Translation
from tests.refusal import refusal_message, refused


@pytest.fixture(autouse=True)
def work_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, content: str | bytes) -> Path:
    """Write a file, packed if its name says so."""
    data = content if isinstance(content, bytes) else content.encode()
    Path(name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return Path(name)


def read(paths: Sequence[Path], languages: Sequence[str] = (), allow_blank: bool = True) -> list[Sentence]:
    """All that the files hold."""
    return list(read_parallel(paths, languages, allow_blank))


def message(paths: Sequence[Path], languages: Sequence[str] = (), allow_blank: bool = True) -> str:
    """What the reader says of bad files, in one line."""
    return refusal_message(read, paths, languages, allow_blank)


def test_two_files_are_read_in_parallel():
    """Packed or not, with a byte order mark, CRLF, and no newline at the end."""
    paths = [write("a.de.gz", "Hallo\r\nzwei  Wörter\n"), write("b.en", b"\xef\xbb\xbfhello\ntwo words")]
    assert read(paths) == [Sentence("Hallo", ("hello",)), Sentence("zwei  Wörter", ("two words",))]


def test_only_a_line_feed_ends_a_line():
    """Unicode's other ends of lines are text, or the files would fall out of step."""
    strange = "a\u2028b\u0085c\x0bd\x0ce\x1cf\rg"
    paths = [write("a", f"{strange}\nh\n"), write("b", "x\ny\n")]
    assert [sentence.source for sentence in read(paths)] == [strange, "h"]


def test_a_table_is_read():
    """Further columns are ignored; lines without text are skipped."""
    path = write("a.tsv", "Hi.\tHallo!\tCC-BY 2.0\n\n  \nRun!\tLauf!\n")
    assert read([path]) == [Sentence("Hi.", ("Hallo!",)), Sentence("Run!", ("Lauf!",))]


def test_several_languages_alternate():
    """However they are given: a table each, a text file each, or one table with the language in its third column."""
    turns = [("Hi.", "Hallo!", "de"), ("Hi.", "Salut !", "fr"), ("Run!", "Lauf!", "de")]
    expected = [Sentence(source, (target,), tag) for source, target, tag in turns]
    tables = [write("de.tsv", "Hi.\tHallo!\nRun!\tLauf!\n"), write("fr.tsv", "Hi.\tSalut !\n")]
    assert read(tables, ["de", "fr"]) == expected
    mixed = write("all.tsv", "Hi.\tHallo!\tde\nHi.\tSalut !\t fr \nRun!\tLauf!\tde\n")
    assert read([mixed], ["de", "fr"]) == expected
    texts = [write("en", "Hi.\nRun!\n"), write("de", "Hallo!\nLauf!\n"), write("fr", "Salut !\nCours !\n")]
    assert read(texts, ["de", "fr"]) == [*expected, Sentence("Run!", ("Cours !",), "fr")]


def test_files_are_read_lazily():
    """A mistake further on is no matter yet, in files in step and in tables that take turns."""
    texts = [write("en", "Hi.\nRun!\n"), write("de", b"Hallo!\n\xff\n")]
    tables = [write("de.tsv", "Hi.\tHallo!\nno tab\n"), write("fr.tsv", "Hi.\tSalut !\nno tab\n")]
    assert next(read_parallel(texts)) == Sentence("Hi.", ("Hallo!",))
    turns = read_parallel(tables, ["de", "fr"])
    assert [next(turns).tag, next(turns).tag] == ["de", "fr"]
    with pytest.raises(UserError, match=r"de.tsv:2"):
        next(turns)


def test_one_language_may_have_a_name():
    table, texts = write("a.tsv", "Hi.\tHallo!\n"), [write("en", "Hi.\n"), write("de", "Hallo!\n")]
    assert read([table], ["de"]) == read(texts, ["de"]) == [Sentence("Hi.", ("Hallo!",), "de")]


def test_unequal_line_counts_are_reported():
    paths = [write("a.de", "eins\nzwei\ndrei\n"), write("b.en", "one\ntwo\n")]
    assert message(paths).startswith("b.en: has 2 lines, but a.de has 3")


@pytest.mark.parametrize("name", ["b.en", "b.en.gz"])
def test_a_bad_byte_is_reported_with_its_position(name):
    """Far into a file too."""
    good_lines = b"a line\n" * 40_000
    paths = [write("a.de", good_lines + b"last\n"), write(name, good_lines + b"caf\xe9\n")]
    expected = f"{name}:40001: byte 0xe9 at byte 4 of the line is not UTF-8; save the file as UTF-8: 'caf\ufffd'"
    assert message(paths) == expected
    assert message([write("c.tsv", b"a\tb\ncaf\xe9\tb\n")]).startswith("c.tsv:2: byte 0xe9 at byte 4")


@pytest.mark.parametrize(
    ("content", "languages", "reason"),
    [
        ("a\tb\nno tab here\n", [], "c.tsv:2: no tab in 'no tab here'; expected a sentence, a tab, its translation"),
        ("a\tb\tde\n\na\tb\n", ["de", "fr"], "c.tsv:3: 1 tab in 'a\\tb'; expected a sentence, a tab"),
        ("a\tb\tde\na\tb\tdee\n", ["de", "fr"], "c.tsv:2: unknown language 'dee'; did you mean de?"),
        ("a\tb\t\n", ["de", "fr"], "c.tsv:1: unknown language ''; choose from de, fr"),
        ("x" * 70 + "\n", [], f"c.tsv:1: no tab in '{'x' * 57}...'; expected"),
    ],
)
def test_a_bad_line_of_a_table_is_reported(content, languages, reason):
    assert message([write("c.tsv", content)], languages).startswith(reason)


def test_blank_sides_are_kept_or_refused():
    """What is trained on may be blank and is left out later; what is judged may not."""
    paths = [write("a", "x\n \ny\n"), write("b", "1\n2\n\n")]
    assert [sentence.is_blank for sentence in read(paths)] == [False, True, True]
    assert message(paths, allow_blank=False).startswith("a:2: the line is blank")
    assert message([write("c", "x\ny\nz\n"), Path("b")], allow_blank=False).startswith("b:3: the line is blank")
    table = write("c.tsv", "a\tb\n\tb\n")
    assert [sentence.is_blank for sentence in read([table])] == [False, True]
    assert message([table], allow_blank=False).startswith(r"c.tsv:2: a side of '\tb' is blank")


@pytest.mark.parametrize(
    ("count", "languages", "reason"),
    [
        (3, [], "3 files; expected a TSV file, or the source's and the translations' text files"),
        (2, ["de", "fr", "it"], "2 files for 3 languages; expected a TSV file for each"),
        (5, ["de", "fr", "it"], "5 files for 3 languages"),
    ],
)
def test_an_invalid_number_of_files_is_refused(count, languages, reason):
    assert reason in message([Path(f"{number}.txt") for number in range(count)], languages)


def test_unreadable_files_are_reported():
    (folder := Path("folder")).mkdir()
    write("broken.gz", "")
    Path("broken.gz").write_bytes(b"no gzip")
    for path, message in (("none", "no such file"), (folder, "is a folder"), ("broken.gz", "is a broken gzip file")):
        with refused(f"{path}: {message}..."):
            list(read_lines(Path(path)))


LINES = [Sentence(f"sentence {number}", (f"Satz {number}",), tag) for number in range(1009) for tag in ("de", "fr")]


def test_a_sentence_belongs_to_one_part():
    """With all its translations, into every language; the shares are met within five deviations."""
    parts = split_sentences(LINES, None, None, 0.1)
    sources = [{sentence.source for sentence in part} for part in parts]
    assert sum(map(len, sources)) == len(set().union(*sources)) == 1009
    assert [len(part) for part in parts] == [2 * len(part_sources) for part_sources in sources]
    for part_sources, share in zip(sources, (0.7, 0.1, 0.2), strict=True):
        assert abs(len(part_sources) - share * 1009) < 5 * (1009 * share * (1 - share)) ** 0.5
    assert sorted(sentence for part in parts for sentence in part) == sorted(LINES)


def test_the_sentence_alone_decides_its_part():
    """Not what else there is, nor its order, case, or Unicode form."""
    complete, half = split_sentences(LINES, None, None, 0.1), split_sentences(LINES[1000::-1], None, None, 0.1)
    for all_of_it, some in zip(complete, half, strict=True):
        assert set(some) == set(all_of_it) & set(LINES[:1001])
    capitals = split_sentences([line._replace(source=line.source.upper()) for line in LINES], None, None, 0.1)
    assert [[line.source.lower() for line in part] for part in capitals] == [
        [line.source for line in part] for part in complete
    ]
    assert fold_text("Straße Á") == fold_text("STRASSE a\u0301")
    assert fold_text("Straße") != fold_text("Strasse.")


def test_given_parts_are_unchanged():
    """The other part is held out of the training data, the same sentences as if both were."""
    inputs = LINES[:7]
    both = split_sentences(LINES, None, None, 0.1)
    valid = split_sentences(LINES, None, inputs, 0.1)
    assert (valid.valid, valid.test) == (both.valid, inputs)
    assert sorted(valid.train) == sorted(both.train + both.test)
    test = split_sentences(LINES, inputs, None, 0.1)
    assert (test.valid, test.test) == (inputs, both.test)
    assert split_sentences(LINES, inputs, inputs, 0.1) == Splits(LINES, inputs, inputs)


def test_held_out_translations_become_references():
    """Each once; lines to train on stay as they are."""
    lines = [
        Sentence("Hi.", ("Hallo!",), "de"),
        Sentence("Hi.", ("Salut !",), "fr"),
        Sentence("Hi.", ("Moin!",), "de"),
        Sentence("Hi.", ("Hallo!",), "de"),
    ]
    share = 0.999  # all but nothing is held out for validation
    assert split_sentences(lines, None, [], share).valid == [Sentence("Hi.", ("Hallo!", "Moin!"), "de"), lines[1]]
    assert split_sentences(lines, [], [], share).train == lines


def test_held_out_sentences_are_streamed_once():
    """What is left is what a split of all of them has, in its order."""
    holdout = SentenceHoldout(None, None, 0.1)
    first = list(holdout.split_off(LINES))
    assert first == split_sentences(LINES, None, None, 0.1).train
    assert len(holdout.sentences("valid")) + len(holdout.sentences("test")) == len(LINES) - len(first)


@pytest.mark.parametrize("spare", [0, -1])
def test_held_out_sentences_are_limited(spare):
    complete = SentenceHoldout(None, None, 0.1)
    remaining = len(LINES) - len(list(complete.split_off(LINES)))
    holdout = SentenceHoldout(None, None, 0.1, max_sentences=remaining + spare)
    if spare == 0:
        assert list(holdout.split_off(LINES * 2)) == list(complete.split_off(LINES * 2))
    else:
        with pytest.raises(UserError, match=rf"task.holdout=0.1 holds out more than {remaining - 1} sentences"):
            list(holdout.split_off(LINES))


def test_sources_repeated_from_training_are_counted():
    training_sources = {sentence.source for sentence in LINES[:4]}  # numbers 0 and 1
    notes = ["1 of 2 sources of the valid split are also in the training split"]
    assert (
        overlap_notes(training_sources, {"valid": [LINES[0].source, LINES[6].source], "test": [LINES[8].source]})
        == notes
    )
    parts = split_sentences(LINES, None, None, 0.1)
    sources = {part: [sentence.source for sentence in sentences] for part, sentences in parts._asdict().items()}
    assert overlap_notes(set(sources.pop("train")), sources) == []


@pytest.fixture
def cached(work_folder, monkeypatch):
    """Hugging Face's `datasets`, keeping what it reads in the test's own folder, and off the network."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", reason="the extra attnx[datasets] is not installed")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("ATTNX_CACHE", str(work_folder / "cache"))
    return datasets


def read_dataset(name: str, columns: list[str], languages: Sequence[str] = ()) -> dict[str, list[Sentence]]:
    """All sentences of all parts."""
    parts = open_dataset(name, columns, languages)
    return {part: list(text.read(allow_blank=part == "train")) for part, text in parts.items()}


ROWS = [{"de": "Hallo!", "en": "Hi.", "n": 3}, {"de": "Lauf!", "en": "Run!", "n": 5}]
READ = [Sentence("Hallo!", ("Hi.",)), Sentence("Lauf!", ("Run!",))]


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.csv", "a.parquet", "saved", "split", "folder"])
def test_a_dataset_from_files(name, cached):
    """A file or what save_to_disk made is for training; a folder may have more parts."""
    table = cached.Dataset.from_list(ROWS)
    expected = {"train": READ}
    if name.endswith("json"):
        write(name, json.dumps(ROWS))
    elif name.endswith("jsonl"):
        table.to_json(name)
    elif name.endswith("csv"):
        table.to_csv(name)
    elif name.endswith("parquet"):
        table.to_parquet(name)
    elif name == "saved":
        table.save_to_disk(name)
    elif name == "split":
        cached.DatasetDict({"train": table, "dev": table}).save_to_disk(name)
        expected["valid"] = READ
    else:
        for part in ("train", "validation", "test"):
            table.to_csv(f"folder/{part}.csv")
        expected |= {"valid": READ, "test": READ}
    assert read_dataset(name, ["de", "en"]) == expected


@pytest.mark.parametrize("name", ["a.csv", "folder"])
def test_words_for_missing_values_are_text(name, cached):
    Path("folder").mkdir()
    file = "folder/train.csv" if name == "folder" else name
    write(file, "de,en\nnull,NA\nNone,nan\n,x\n")
    expected = [Sentence("null", ("NA",)), Sentence("None", ("nan",)), Sentence("", ("x",))]
    assert read_dataset(name, ["de", "en"]) == {"train": expected}


def test_nested_columns_are_read(cached):
    """As translation datasets of the hub have them; None reads as blank, languages take turns."""
    rows = [None, {"en": "Hi.", "de": "Hallo!", "fr": "Salut !"}, {"en": "Run!", "de": "Lauf!"}]
    cached.Dataset.from_list([{"translation": row} for row in rows]).save_to_disk("saved")
    assert read_dataset("saved", ["en", "de", "fr"], ["de", "fr"])["train"] == [
        Sentence("", ("",), "de"),
        Sentence("", ("",), "fr"),
        Sentence("Hi.", ("Hallo!",), "de"),
        Sentence("Hi.", ("Salut !",), "fr"),
        Sentence("Run!", ("Lauf!",), "de"),
        Sentence("Run!", ("",), "fr"),
    ]


@pytest.mark.parametrize("name", ["a.parquet", "saved"])
def test_a_data_set_equals_its_sentences(name, cached):
    """The same rows as of a table of text; another data set of the same name is encoded anew."""
    rows = [{"de": f"Haus {row % 13} {row}", "en": f"house {row} {row % 7}"} for row in range(101)]

    def save(rows: list[dict[str, str]]) -> None:
        table = cached.Dataset.from_list(rows)
        table.save_to_disk(name) if name == "saved" else table.to_parquet(name)
        write("a.tsv", "".join(f"{row['de']}\t{row['en']}\n" for row in rows))

    def fingerprint(**options: Any) -> str:
        data = Translation(tokenizer="word", holdout=0.1, **options).load()
        return data.train_dataset().fingerprint()

    fingerprints = []
    for count in (101, 100):
        save(rows[:count])
        fingerprints.append(fingerprint(train="a.tsv"))
        for _ in range(2):
            assert fingerprint(dataset=name, columns=["de", "en"]) == fingerprints[-1]
    assert len(set(fingerprints)) == 2


def test_an_invalid_dataset_is_reported(cached):
    cached.DatasetDict({"train": cached.Dataset.from_list(ROWS)}).save_to_disk("good")
    cached.DatasetDict({"test": cached.Dataset.from_list(ROWS)}).save_to_disk("untrained")
    blank = cached.Dataset.from_list([*ROWS, {"de": " ", "en": "x", "n": 7}])
    cached.DatasetDict({"train": blank, "test": blank}).save_to_disk("blank")
    write("bad.json", b'{"de": "a"')
    write("wide.csv", "de,en\n1,ein,one\n2,zwei,two\n")
    write("open.csv", 'de,en\n"ein,one\n' + "zwei,two\n" * 30_011)
    write("zeros.json", json.dumps([{"de": 0, "en": "x"}]))
    cases: list[tuple[str, list[str], str]] = [
        ("good", ["de", "em"], "task.dataset=good: train: has no column 'em'; choose from de, en, n"),
        ("good", ["de", "n"], "task.dataset=good: train: the column 'n' holds int, expected text"),
        ("zeros.json", ["de", "en"], "task.dataset=zeros.json: train: the column 'de' holds int, expected text"),
        ("good", ["de"], "task.columns=['de']: expected 2"),
        ("untrained", ["de", "en"], "task.dataset=untrained: has no split called train; it has test"),
        ("blank", ["de", "en"], "task.dataset=blank: test: row 3 has a blank side"),
        ("none.csv", ["de", "en"], "task.dataset=none.csv: cannot be read: "),
        ("bad.json", ["de", "en"], "task.dataset=bad.json: cannot be read: "),
        (
            "wide.csv",
            ["de", "en"],
            "task.dataset=wide.csv: cannot be read: wide.csv:2: 3 fields, but the header has 2: '1,ein,one'",
        ),
        ("open.csv", ["de", "en"], "task.dataset=open.csv: cannot be read: "),
        ("nobody/nothing", ["de", "en"], "task.dataset=nobody/nothing: cannot be read: "),
    ]
    for name, columns, message in cases:
        with refused(f"{message}..."):
            read_dataset(name, columns)


def test_a_missing_datasets_package_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        UserError, match=r"task.dataset needs datasets, .* pip install -c constraints.txt -e '\.\[datasets\]'"
    ):
        read_dataset("wmt14:de-en", ["de", "en"])
