"""Escape codes in data: output to terminals and tables is escaped, and tables read back."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from attnx.files.printable import UNSAFE, printable, printable_json
from attnx.reports.run.evaluated_examples import read_examples
from attnx.runs.predictions import BAR, read_field, read_predictions, read_symbols, write_field, write_symbols
from tests.run_folder import write_run_folder

# Turns all that follows red; names the window; the same as the first in one character of C1; turns the direction.
RED, TITLE, C1, RIGHT_TO_LEFT = "\x1b[31m", "\x1b]0;mine\x07", "\x9b31m", "\u202e"
ALL = RED + TITLE + C1 + RIGHT_TO_LEFT
LETTERS = r"\x1b[31m\x1b]0;mine\x07\x9b31m\u202e"

SIGNS = st.characters(exclude_categories=["Cs"]) | st.sampled_from(["\\", "␣", " ", BAR, "\x1b", "\u2028", *"xutnr7"])


def unsafe(text: str) -> list[str]:
    return UNSAFE.findall(text.replace("\n", "").replace("\t", ""))


@given(st.lists(st.text(SIGNS, min_size=1)))
def test_escaped_symbols_read_back(symbols):
    """Whatever they are made of, a field holds nothing that could end it or be obeyed."""
    field = write_symbols(symbols)
    assert read_symbols(field) == tuple(symbols)
    assert not UNSAFE.search(field)
    assert " | " not in field


@given(st.text(SIGNS))
def test_an_escaped_name_reads_back(name):
    field = write_field(name)
    assert read_field(field) == name
    assert not UNSAFE.search(field)


@given(st.text(SIGNS))
def test_escaped_json_keeps_its_value(text):
    written = printable_json(json.dumps([text, {text: [7]}], ensure_ascii=False, indent=2))
    assert json.loads(written) == [text, {text: [7]}]
    assert not unsafe(written)


def test_safe_text_is_unchanged():
    """Letters with accents, other scripts, an emoji of several characters that a zero-width joiner holds together."""
    text = "Çé 字 \u05d0 e\u0301 \N{WOMAN}\u200d\N{PERSONAL COMPUTER} \\x1b"
    assert printable(text) == text
    assert printable(ALL) == LETTERS


@pytest.fixture
def word_file(runs):
    """Words of which one is to be pronounced by escape codes."""
    path = Path("more.tsv")
    path.write_text(f"dab\t{ALL} S\nkes\tK EH S\nbe\tB EH\n", encoding="utf-8")
    return path


def test_an_evaluation_prints_no_control_characters(word_file, command):
    """Nor do its files hold any; who reads them has the symbols as they were."""
    answer = command("evaluate", "one", f"task.test={word_file}")
    assert (answer.code, unsafe(answer.out + answer.err)) == (0, [])
    assert r"\x1b[31m" in answer.out
    folder = Path("one/evaluations/more")
    for file in ("predictions.tsv", "by_symbol.tsv", "confusions.tsv", "README.md"):
        assert not unsafe((folder / file).read_text(encoding="utf-8")), file
    assert read_predictions(folder)[0].references == ((ALL, "S"),)
    assert sum(counts.symbols for counts in read_examples(folder).length_errors.values()) == 2 + 2 + 3
    answer = command("compare", "one", str(folder))
    assert (answer.code, unsafe(answer.out + answer.err)) == (0, [])


def test_a_prediction_is_saved_raw_and_printed_escaped(runs, command, monkeypatch):
    """A copied symbol stands in a file and in a pipe as it is, for other programs; on a terminal in letters."""
    Path("some.txt").write_text(f"da{RIGHT_TO_LEFT}b\n", encoding="utf-8")
    overrides = ["predict", "one", "some.txt", "--unknown", "keep"]
    piped = command(*overrides)
    assert (piped.code, RIGHT_TO_LEFT in piped.out) == (0, True)
    assert command(*overrides, "--out", "out.txt").code == 0
    assert Path("out.txt").read_text(encoding="utf-8") == piped.out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert command(*overrides).out == piped.out.replace(RIGHT_TO_LEFT, r"\u202e")


def test_a_message_escapes_control_characters(refuse):
    Path("words.tsv").write_text(f"dab {RED}{C1}\n", encoding="utf-8")
    assert not unsafe(refuse("task.train=words.tsv"))


def test_names_of_runs_are_escaped(work_folder, command):
    """And a mark-up of the library that draws tables is no mark-up."""
    for number, name in enumerate((f"{RED}[/b][bold]", "plain")):
        scores = {"test_per": 7.0, f"test_per_[/b]{RED}": 7.0 + number}
        config = {"seed": 1, "scorer": {"name": name}}
        write_run_folder(f"multirun/{number}{RED}", config, scores, name=name, notes=[RED])
    folders = [str(path) for path in Path("multirun").iterdir()]
    for words in (["runs"], ["runs", "--json"], ["compare", *folders], ["report", "multirun"]):
        answer = command(*words)
        assert (answer.code, unsafe(answer.out + answer.err)) == (0, []), words
    assert not unsafe(Path("multirun/report.md").read_text(encoding="utf-8"))


def test_a_folder_name_is_printed_safely(runs, command, monkeypatch):
    """On a terminal; in a pipe it is the name that other programs open."""
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **options: Path(path).touch())
    name = f"o{RED}ne"
    for alignment in sorted(Path("one/alignments").glob("*.npz"))[1:]:
        alignment.unlink()
    Path("one").rename(name)
    for words in (["plot", name], ["report", name], ["resume", name]):
        assert name in command(*words).out, words
        with monkeypatch.context() as patch:
            patch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
            answer = command(*words)
        assert (answer.code, RED in answer.out + answer.err) == (0, False), words
