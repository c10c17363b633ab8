"""What is said of odd tables of texts: what would train, and show a number, though nobody meant it."""

import bz2
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from attnx import registry
from attnx.data.examples import read_pairs
from attnx.data.readers.tsv import PairReader
from attnx.errors import UserError
from attnx.problems.forecasting.forecasting import Forecasting
from attnx.runs.predictions import Evaluation
from attnx.runs.run import read_run
from attnx.tasks import translation
from attnx.tasks.classification import read_labeled_texts
from attnx.tasks.g2p import G2p
from attnx.tasks.language_model import LanguageModel
from attnx.tasks.sequences import AnySequence

LETTERS = "abcdefghijk"
COUNT = 31
FEW = [
    "task.holdout=0.2",
    "encoder.hidden_size=7",
    "decoder.hidden_size=11",
    "trainer.max_steps=2",
    "trainer.num_validations=1",
]


def word(n: int) -> str:
    return LETTERS[n % 11] + LETTERS[n // 11 % 11] + LETTERS[n * 7 % 11]


def phones(n: int) -> str:
    return " ".join(letter.upper() for letter in word(n))


def lines(row: Callable[[int], str], count: int = COUNT) -> str:
    return "".join(f"{row(n)}\n" for n in range(count))


# What the table is, what it holds, the words of the command, and what is said.
REFUSED = {
    "probabilities before pronunciations": (
        lines(lambda n: f"{word(n)}\t0.{n + 11}\t1.0\t{phones(n)}"),
        [],
        "words.tsv: column 2 has numbers, such as '0.12', and would be read as a pronunciation; name the columns to "
        "read, task.columns=[1,4]",
    ),
    "frequencies behind": (
        lines(lambda n: f"{word(n)}\t{phones(n)}\t{n * 17 if n != 7 else '-'}"),
        [],
        "column 3 has numbers, such as '17', and would be read as a pronunciation; name the columns to read, "
        "task.columns=[1,2]",
    ),
    "classes of words": (
        lines(lambda n: f"{word(n)}\tNOUN{n % 10}\t{phones(n)}", 211),
        [],
        "column 2 has only 10 different values, such as 'NOUN1'",
    ),
    "dates": (
        lines(lambda n: f"{n + 1} May 19{n + 11}\t19{n + 11}-05-{n + 1:02}", 83),
        [],
        "phones are separated by spaces. For targets of characters: attnx task=sequences task.source=characters "
        "task.target=characters task.train=words.tsv",
    ),
    "scores before sentences": (
        lines(lambda n: f"0.{n + 11}\tein {word(n)}\ta {word(n)}"),
        ["task=translation", "task.tokenizer=word"],
        "column 1 has numbers, such as '0.12', and would be read as a sentence; name the columns to read, "
        "task.columns=[2,3]",
    ),
    "addresses beside sentences": (
        lines(lambda n: f"ein {word(n)}\thttps://example.org/{n}\ta {word(n)}"),
        ["task=translation", "task.tokenizer=word"],
        "column 2 has addresses, such as 'https://example.org/1'",
    ),
    "semicolons": (
        lines(lambda n: f"{word(n)};{phones(n)}"),
        [],
        "columns may be separated by ';': replace that by tabs",
    ),
    "old line ends": (
        lines(lambda n: f"{word(n)}\t{phones(n)}").replace("\n", "\r"),
        [],
        "words.tsv:1: lines end with a carriage return alone; save the file with line feeds",
    ),
    "labels first": (
        lines(lambda n: f"{'ham' if n % 2 else 'spam'}\ta {word(n)} b {word(n + 1)}"),
        ["task=classification"],
        "task.label=first",
    ),
    "a missing column": (
        lines(lambda n: f"{word(n)}\t{phones(n)}"),
        ["task.columns=[1,3]"],
        "words.tsv:1: 2 columns, so there is no column 3, which task.columns names",
    ),
    "a column before the first": (
        lines(lambda n: f"{word(n)}\t{phones(n)}"),
        ["task.columns=['0',2]"],
        "task.columns: words.tsv has no column '0' in its first line",
    ),
    "a column without that name": (
        f"word\tphones\n{lines(lambda n: f'{word(n)} {phones(n)}')}",
        ["task.columns=[word,phone]"],
        "task.columns: words.tsv has no column 'phone' in its first line; did you mean phones",
    ),
}


@pytest.mark.parametrize(("text", "words", "message"), REFUSED.values(), ids=REFUSED)
def test_a_table_that_means_something_else_is_refused(text, words, message, refuse):
    Path("words.tsv").write_bytes(text.encode())
    assert message in refuse("task.train=words.tsv", *words, *FEW, "folder=run")


DAYS = [f"2016-{1 + n // 28:02}-{1 + n % 28:02}" for n in range(COUNT)]
DIGITS = [day.replace("-", "") for day in DAYS]


def series(row: Callable[[int], str], names: str = "day,a") -> str:
    return f"{names}\n{lines(row)}"


# Tables of series: what the table is, what it holds, the words of the command, and what is said.
REFUSED_SERIES = {
    "semicolons and decimal commas": (
        series(lambda n: f"{DAYS[n]};{n},5", "day;a"),
        [],
        "series.csv:1: 1 column: 'day;a'; its columns may be separated by ';': replace that by commas",
    ),
    "tabs": (series(lambda n: f"{DAYS[n]}\t{n}", "day\ta"), [], r"separated by '\t': replace that by commas"),
    "decimal commas": (
        series(lambda n: f"{DAYS[n]},{n},5"),
        [],
        "series.csv:2: 3 columns, but line 1 has 2: '2016-01-01,0,5'; quote cells with commas, and write decimals",
    ),
    "quoted decimal commas": (
        series(lambda n: f'{DAYS[n]},"{n},5"'),
        [],
        "series.csv:2: '0,5' in column 'a' is not a number; write decimals with a point, and thousands without",
    ),
    "a title": (f"Load\n{series(lambda n: f'{DAYS[n]},{n}')}", [], "remove what is above the columns' names"),
    "old line ends": (
        series(lambda n: f"{DAYS[n]},{n}").replace("\n", "\r"),
        [],
        "series.csv:1: lines end with a carriage return alone; save the file with line feeds",
    ),
    "dates as values": (
        series(lambda n: f"{DIGITS[n]},{n}"),
        ["task.time_column=null"],
        "series.csv: the column 'day' has dates, such as 20160101; set task.time_column=day if they are the rows'",
    ),
    "several series": (
        series(lambda n: f"{DAYS[n // 2]},{n % 2},{n}", "day,who,a"),
        [],
        "the time 2016-01-01 comes twice; sort the rows and keep one of each time; if they are of several series, set "
        "task.group_column to the column of their names",
    ),
    "a split at dates that are too late": (
        series(lambda n: f"{DAYS[n]},{n}"),
        ["task.split=[2016-01-21,2017-01-25]"],
        "task.split=[2016-01-21,2017-01-25]: the test split is empty; the rows are from 2016-01-01 to 2016-02-03",
    ),
}
SERIES = ["task=forecasting", "task.file=series.csv", "task.time_column=day", "task.lookback=3", "task.horizon=2"]


@pytest.mark.parametrize(("text", "words", "message"), REFUSED_SERIES.values(), ids=REFUSED_SERIES)
def test_a_series_that_means_something_else_is_refused(text, words, message, refuse, sized):
    Path("series.csv").write_bytes(text.encode())
    assert message in refuse(*sized(*words, "model=history", "folder=run", defaults=SERIES))


def test_a_first_row_that_is_taken_for_names_is_noted():
    """Unless the command says so; times of digits alone are days of the calendar."""
    Path("series.csv").write_text(series(lambda n: f"{DIGITS[n]},{n}"), encoding="utf-8")
    notes = []
    for header in (None, True):
        task = Forecasting("series.csv", header=header, time_column="day", lookback=3, horizon=2, season_length=2)
        task.load()
        notes.append([note for note in task.notes if not note.startswith("task.split")])
    irregular = (
        "1 of 30 steps are not about 86400 s long as is usual, the first after 20160128; they are treated as equal"
    )
    names = "the first line of series.csv is taken for names of columns, and not read: 'day,a'"
    assert notes == [[names, irregular], [irregular]]


def write(text: str, name: str = "words.tsv") -> Path:
    Path(name).write_text(text, encoding="utf-8")
    return Path(name)


def test_named_columns_are_read():
    path = write(lines(lambda n: f"{word(n)}\t0.{n + 11}\t{phones(n)}"))
    pairs = read_pairs(path, columns=["1", "3"])
    assert (pairs[3].source_text, " ".join(pairs[3].references[0])) == (word(3), phones(3))
    write(f"ipa\tp\torth\n{lines(lambda n: f'{phones(n)}	0.{n + 11}	{word(n)}')}")
    assert read_pairs(path, columns=["orth", "ipa"]) == pairs
    assert read_pairs(write("ipa\tp\torth\nA B\t0.1\tab\n"), columns=["orth", "1"]) == read_pairs(write("ab\tA B\n"))


def test_digits_as_symbols_and_small_tables_are_data():
    """Numbers spelled out, ids, three lines of a lexicon, phones that occur once, and several pronunciations."""
    path = write(lines(lambda n: f"{n * 37}\tnumber {word(n)}"))
    assert len(PairReader("characters", "words").read(path)) == COUNT
    path = write(lines(lambda n: f"{n} {n + 1}\t{n + 2} {n}"))
    assert len(PairReader("ids", "ids").read(path)) == COUNT
    assert len(read_pairs(write("a\t1\nb\t2\nc\t2 3 3\n"))) == 3
    assert len(read_pairs(write(lines(lambda n: f"{word(n)}\tP{n}")))) == COUNT
    assert len(read_pairs(write(lines(lambda n: f"{word(n)}\t{phones(n)}\t{phones(n + 1)}")))[0].references) == 2


@pytest.mark.parametrize("header", ["wort\tausSprache", "word\tpronunciation"])
def test_a_first_line_of_names_is_not_read(header):
    """Whether its words are typical, or only occur nowhere else; a first line of data stays."""
    data = lines(lambda n: f"{word(n)}\t{phones(n)}")
    notes: list[str] = []
    assert read_pairs(write(f"{header}\n{data}"), notes=notes) == read_pairs(write(data))
    assert notes == [f"the first line of words.tsv is taken for names of columns, and not read: {header!r}"]
    notes.clear()
    assert len(read_pairs(write(data), notes=notes)) == COUNT
    assert not notes
    reader = PairReader("characters", "words")
    assert len(reader.read(write(f"{header}\n{data}"))) == COUNT
    assert len(reader.notes) == 1
    labels = lines(lambda n: f"a {word(n)}\t{n % 2}")
    assert len(read_labeled_texts(write(f"der Text\tdie Klasse\n{labels}"), notes=notes)) == COUNT
    assert len(notes) == 1


def test_a_first_line_that_may_be_data_is_read():
    """One with a label or symbols of the training data that this file has nowhere else, or one of numbers."""
    data = lines(lambda n: f"{word(n)}\t{phones(n)}")
    notes: list[str] = []
    assert len(read_pairs(write(f"zz\tZ Q\n{data}"), notes=notes, known_phones={"Z", "Q", "K"})) == COUNT + 1
    reader = PairReader("characters", "words")
    reader.known_targets = {"Z", "Q"}
    assert len(reader.read(write(f"zz\tZ Q\n{data}"))) == COUNT + 1
    numbers = lines(lambda n: f"{n + 1000} 900\t{n % 3}")
    assert len(PairReader("ids", "ids").read(write(f"7 900\t135\n{numbers}"))) == COUNT + 1
    labels = lines(lambda n: f"a {word(n)}\t{'ham' if n % 2 else 'news'}")
    for options in ({"labels": ("ham", "news", "spam")}, {"known_labels": {"spam"}}):
        path = write(f"win cash\tspam\n{labels}")
        assert len(read_labeled_texts(path, notes=notes, **options)) == COUNT + 1
    assert not notes + reader.notes


@pytest.mark.parametrize(
    ("task", "line"), [("classification", "win cash\tspam"), ("g2p", "zz\tZ"), ("sequences", "z\tZ")]
)
def test_what_was_trained_on_tells_data_from_names(task, line):
    """In a split of its own, when a task loads it and when a run is reopened."""
    data_lines = lines(lambda n: f"{word(n)}\t{('ham', 'news')[n % 2] if task == 'classification' else phones(n)}")
    write(f"{data_lines}{line}\n", "train.tsv")
    write(f"{line}\n{data_lines}", "test.tsv")
    names = write(f"der Text\tdieKlasse\n{data_lines}", "names.tsv")
    single = registry.build("task", (task, {"train": "train.tsv", "valid": "names.tsv", "test": "test.tsv"}))
    data = single.load()
    assert len(data.pairs.test) == len(data.pairs.valid) + 1
    note = f"the first line of {names} is taken for names of columns, and not read: 'der Text\\tdieKlasse'"
    assert [note for note in single.notes if "names of columns" in note] == [note]
    Path("vocabulary").mkdir()
    data.save_sides(Path("vocabulary"))
    reopened = registry.build("task", (task, {"train": "train.tsv", "test": "test.tsv"}))
    reopened.restore(Path("vocabulary"))
    assert reopened.test_pairs() == data.pairs.test
    assert not reopened.notes


@pytest.mark.parametrize("limit", [10**9, 1])
def test_names_above_translations_are_noted_and_equal_words_are_translations(limit, monkeypatch):
    """In each split, from the cache too, and when a run is reopened."""
    monkeypatch.setattr(translation, "MAX_BYTES_IN_MEMORY", limit)
    monkeypatch.setenv("ATTNX_CACHE", "cache")
    pairs = "".join(f"a{n} b c d\te{n} f g h\n" for n in range(COUNT))
    for part in ("train", "valid", "test"):
        write(f"source\ttarget\n{pairs}", f"{part}.tsv")
    options = {f"{part}": f"{part}.tsv" for part in ("train", "valid", "test")}
    noted = [
        f"the first line of {name} is taken for names of columns, and not read: 'source\\ttarget'"
        for name in options.values()
    ]
    for _ in range(2):
        single = registry.build("task", ("translation", {**options, "tokenizer": "word"}))
        assert len(single.load().pairs.test) == COUNT
        assert sorted(note for note in single.notes if "names of columns" in note) == sorted(noted)
    single.notes = []
    single.test_pairs()
    assert single.notes == noted[2:]
    write(f"question\tquestion\n{pairs}", "test.tsv")
    assert len(single.test_pairs()) == COUNT + 1


@pytest.mark.parametrize("ending", ["bz2", "xz", "zip"])
def test_packed_tables_are_read(ending):
    text, path = lines(lambda n: f"{word(n)}\t{phones(n)}"), Path(f"words.tsv.{ending}")
    if ending == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.mkdir("folder")
            archive.writestr("folder/words.tsv", text)
    else:
        path.write_bytes((bz2 if ending == "bz2" else lzma).compress(text.encode()))
    assert read_pairs(path) == read_pairs(write(text))
    path.write_bytes(b"no archive")
    with pytest.raises(UserError, match=f"is a broken {ending} file|cannot be read"):
        read_pairs(path)


def test_a_word_in_another_case_is_in_the_same_part():
    write(lines(lambda n: f"{word(n)}\t{phones(n)}\n{word(n).upper()}\t{phones(n)}", 211))
    parts = [{pair.source_text.lower() for pair in part} for part in G2p(train="words.tsv").load().pairs]
    assert not parts[0] & parts[1]
    assert not parts[0] & parts[2]
    write("".join(f"{word(n).upper()}\t{phones(n)}\n" for n in range(5)), "test.tsv")
    write(lines(lambda n: f"{word(n)}\t{phones(n)}"))
    task = G2p(train="words.tsv", test="test.tsv")
    task.load()
    assert any("sources of the test split are also in the training split" in note for note in task.notes)


@pytest.mark.usefixtures("no_pictures")
def test_an_evaluation_says_what_was_trained_on(command):
    write(lines(lambda n: f"{word(n)}\t{phones(n)}", 97))
    assert command("task.train=words.tsv", *FEW, "folder=run").code == 0
    trained = [pair.source_text for pair in G2p(train="words.tsv", holdout=0.2).load().pairs.train]
    write("".join(f"{text}\tA B\n" for text in trained[:7]) + "zzz\tA\n", "test.tsv")
    assert "note: 7 of 8 sources are also in the training split" in command("evaluate", "run", "task.test=test.tsv").out


def test_numbers_in_other_units_have_another_signature():
    """Errors scaled by other training data, and perplexities over other symbols: ``attnx compare`` says so."""
    for name, step in (("one", 1), ("two", 2)):
        write(series(lambda n, step=step: f"{DAYS[n]},{n % 7 * step}"), f"{name}.csv")
        write(lines(lambda n, step=step: f"{n}.npy\t{n * step}.npy", 5), f"{name}.tsv")
    for n in range(9):
        np.save(f"{n}.npy", np.full((2, 1), float(n)))
    write(lines(word, 97), "text.txt")
    few = {"time_column": "day", "lookback": 3, "horizon": 2}
    units = [
        [Forecasting(f"{name}.csv", test="one.csv", **few) for name in ("one", "one", "two")],
        [AnySequence(f"{name}.tsv", "one.tsv", "one.tsv", "features", "features") for name in ("one", "one", "two")],
        [LanguageModel("text.txt", tokenizer=kind) for kind in ("word", "word", "character")],
    ]
    for tasks in units:
        for task in tasks:
            task.load()
        first, same, other = (task.signatures(nn.ModuleDict()) for task in tasks)
        assert first == same
        assert all(first[name] != other[name] for name in first)
        assert first


@pytest.mark.usefixtures("no_pictures")
def test_symbols_that_training_does_not_have_are_noted(succeed):
    """Of a test file, and of one to evaluate on; all of them cost errors, and few are no wonder."""
    write(lines(lambda n: f"{word(n)}\t{phones(n)}", 97))
    write("abz\ta B B B\n", "other.tsv")
    noted = {
        f"{share} % of the symbols of the test {side} are not in the vocabulary of training, such as {symbol}; "
        "write both alike, or enlarge it"
        for share, side, symbol in ((33, "sources", "'z'"), (25, "references", "'a'"))
    }
    succeed("task.train=words.tsv", "task.test=other.tsv", *FEW[1:], "folder=run")
    assert noted < {*read_run("run").info["notes"]}
    rare = "".join(f"abcdefghijkabcdefghijk\t{'A ' * n}B\n" for n in range(19, 22))
    write(f"zb\tx B\n{rare}", "rare.tsv")
    for name, expected in (("other", noted), ("rare", set())):
        succeed("evaluate", "run", f"task.test={name}.tsv")
        notes = Evaluation(f"run/evaluations/{name}").info["notes"]
        assert {note for note in notes if "symbols of the" in note} == expected
