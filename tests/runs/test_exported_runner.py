"""The runner of an exported model prints what ``attnx predict`` prints, for every task that can be exported."""

from __future__ import annotations

import gzip
import io
import re
import runpy
import sys
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from attnx import registry
from attnx.config.compose import compose
from attnx.data.graphemes import split_graphemes
from attnx.data.readers.labeled_texts import split_sentences
from attnx.errors import UserError
from attnx.export.runner import text as text_module
from attnx.export.text_rules import text_rules
from attnx.training.fit import fit

SIZES = [
    "trainer.batch_size=8",
    "trainer.max_steps=15",
    "trainer.num_validations=1",
    "model.embedding_dim=5",
    "decoder.hidden_size=11",
]
WORDS = [*SIZES, "encoder.hidden_size=7", "task.train=words.tsv", "task.holdout=0.15"]
TEXT_OVERRIDES = [*SIZES, "encoder.hidden_size=7", "task.holdout=0.15"]
COVERED = ["decoding=beam", "decoding.nbest=2", "decoding.coverage_penalty=0.4", "decoding.no_repeat_ngram_size=2"]
COUNTING = [f"{n} {n * 7 % 13} {n % 5}\t{n % 5} {n * 7 % 13} {n}" for n in range(60)]
PAIRS = list(product(("Hund", "Mann", "Ball"), ("rot", "ihn", "es", "dich", "uns")))
SENTENCES = [f"Ein {first} sieht {second}.\tA {first} sees {second}!" for first, second in PAIRS]
STORIES = [
    f"1 Mary went to the {first}.\n2 John went to the {second}.\n3 Where is Mary?\t{first}\t1"
    for first, second in product(("garden", "hall", "office", "kitchen"), repeat=2)
]
# What each task is trained on, and lines to ask it: empty and blank ones, unknown symbols, spaces, a byte order mark.
REQUESTS: dict[str, tuple[list[str], list[str]]] = {
    "g2p": (
        [*WORDS, "decoding=beam", "decoding.beam_size=3", "decoding.length_penalty=gnmt", "decoding.min_length=2"],
        ["dab", "", "kzz\u00e9e", "  ", " assab "],
    ),
    "coverage": (
        [*WORDS, *COVERED],
        ["\ufeffke", "dabbe"],
    ),
    "characters": (
        [*WORDS, "task=sequences", "task.source=characters", "task.target=characters"],
        ["d b", "", "q"],
    ),
    "ids": (
        [*TEXT_OVERRIDES, "task=sequences", "task.train=counting.tsv", "task.source=ids", "task.target=ids"],
        ["007 7 0", "", "99 1"],
    ),
    "tagged": (
        [*TEXT_OVERRIDES, "task=sequences", "task.train=tagged.tsv", "task.tagged=true", "model.tag_inputs=[encoder]"],
        ["3 8 3", "", "x 1"],
    ),
    "bpe": (
        [*TEXT_OVERRIDES, "task=translation", "task.train=texts.tsv", "task.vocab_size=40", "task.lower=true"],
        ["Ein  Hund\tsieht x.", "", "\u00e9"],
    ),
    "word": (
        [
            *TEXT_OVERRIDES,
            "task=translation",
            "task.train=texts.tsv",
            "task.tokenizer=word",
            "task.shared_vocabulary=true",
        ],
        ["(Ein) Mann, ihn!", "z"],
    ),
    "text": (
        [*SIZES, "task=language_model", "task.train=text.txt", "task.holdout=0.2", "recipe=attention_rnn"],
        ["Ein Hund", "", "Zwei", "Ein ."],
    ),
    "story": (
        [*TEXT_OVERRIDES, "task=qa", "task.folder=stories", "task.sentences=2"],
        ["John went up. Mary went home. .. John went in. Where is Mary?", "", "John zoomed. Where is he"],
    ),
    "texts": (
        [*TEXT_OVERRIDES, "task=classification", "task.train=labels.tsv", "task.min_count=1"],
        ["It Rains!! Or not?  3.5", "", "it's dry."],
    ),
    "pairs": (
        [*TEXT_OVERRIDES, "task=classification", "task.train=pairs.tsv", "task.texts=2", "task.lower=false"],
        ["It rains.\tIs it Dry?", ""],
    ),
    "points": (
        [*SIZES, "encoder.hidden_size=7", "recipe=pointer", "task=pointing", "task.problem=sorting", "task.examples=20",
         "task.num_held_out=5"],
        ["five.csv", "", "seven.npy"],
    ),
}  # fmt: skip
TEXTS = ["Ein Hund, ein (roter) Ball!", "l'ami dit: oui", "low lower lowest"]


def train(*overrides: str) -> None:
    """A small run, ``one``."""
    fit({**compose(overrides), "folder": "one"}, overrides, console=Console(file=io.StringIO()))


@pytest.fixture
def material(words: Path) -> None:
    """The data of all tasks, and files that some lines name."""
    Path("counting.tsv").write_text("\n".join(COUNTING) + "\n", encoding="utf-8")
    tagged = [f"{line}\t{('low', 'high')[number % 2]}" for number, line in enumerate(COUNTING)]
    Path("tagged.tsv").write_text("\n".join(tagged) + "\n", encoding="utf-8")
    Path("texts.tsv").write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    Path("text.txt").write_text("\n".join(line.partition("\t")[0] for line in SENTENCES) + "\n", encoding="utf-8")
    weather = [("Rains", "wet"), ("shines", "dry")]
    answers = [(f"this is {n}. It {weather[n % 2][0]}!", weather[n % 2][1]) for n in range(60)]
    Path("labels.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in answers), encoding="utf-8")
    Path("pairs.tsv").write_text("".join(f"{text}\tis it?\t{label}\n" for text, label in answers), encoding="utf-8")
    Path("stories").mkdir()
    for part in ("train", "test"):
        Path(f"stories/qa1_made_{part}.txt").write_text("\n".join(STORIES) + "\n", encoding="utf-8")
    drawn = np.random.default_rng(7)
    np.save("seven.npy", drawn.random((7, 1)))
    Path("five.csv").write_text("value\n" + "\n".join(map(str, drawn.random(5))) + "\n", encoding="utf-8")


@pytest.fixture
def run_exported(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run ``out/run.py`` in this process, as a user would: its exit code and what it prints."""

    def give(*overrides: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["out/run.py", *overrides])
        monkeypatch.setattr(sys, "path", ["out", *sys.path])
        warnings.simplefilter("ignore")  # torch would rather have its programs from torch.export
        with pytest.raises(SystemExit) as ended:
            runpy.run_path("out/run.py", run_name="__main__")
        return int(ended.value.code or 0), capfd.readouterr().out

    return give


@pytest.mark.usefixtures("material", "no_pictures")
@pytest.mark.parametrize("task", REQUESTS)
def test_the_runner_prints_what_predict_prints(
    task: str, command: Callable[..., Any], run_exported: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Line by line and option by option, for every task that can be exported."""
    training, lines = REQUESTS[task]
    train(*training)
    answer = command("export", "one", "--format", "torch", "--out", "out")
    assert answer.code == 0, answer.err
    Path("asked.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    beam, tag = ["decoding=beam", "decoding.beam_size=4"], ["--tag", "low"] * (task == "tagged")
    for predict_flags, runner_flags in {
        (): (), ("--scores",): ("--scores",), ("--nbest", "3"): ("--nbest", "3"), (*beam,): ("--width", "4"),
        (*beam, "--nbest", "2", "--scores"): ("--width", "4", "--nbest", "2", "--scores"),
    }.items():  # fmt: skip
        expected = command("predict", "one", "asked.txt", *predict_flags, *tag)
        assert expected.code == 0, expected.err
        code, output = run_exported("asked.txt", *runner_flags, *tag)
        assert code == 0
        assert round_scores(output) == round_scores(expected.out), predict_flags
    if task == "points":  # a matrix by itself is a source, too
        expected = command("predict", "one", "five.csv")
        assert run_exported("five.csv") == (0, expected.out)
    Path("asked.txt.gz").write_bytes(gzip.compress(Path("asked.txt").read_bytes()))
    assert run_exported("asked.txt.gz", *tag) == run_exported("asked.txt", *tag)
    # Standard input, and no new line at its end.
    expected_output = "\n".join(lines).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(expected_output)))
    expected = command("predict", "one", *tag)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(expected_output)))
    assert round_scores(run_exported(*tag)[1]) == round_scores(expected.out)


def round_scores(printed: str) -> list[list[str]]:
    """Its lines and columns; scores are sums of float32, which differ in their last digit."""
    lines = [line.split("\t") for line in printed.split("\n")]
    return [[f"{float(word):.3f}" if re.fullmatch(r"-\d+\.\d{6}", word) else word for word in line] for line in lines]


@pytest.mark.usefixtures("material", "no_pictures")
def test_an_invalid_line_ends_the_runner_like_predict(command: Callable[..., Any], run_exported: Any) -> None:
    train(*REQUESTS["ids"][0])
    assert command("export", "one", "--format", "torch", "--out", "out").code == 0
    Path("asked.txt").write_text("1 2\n3 x\n4 5\n", encoding="utf-8")
    expected = command("predict", "one", "asked.txt")
    assert run_exported("asked.txt") == (2, expected.out)
    assert expected.code == 2
    assert len(expected.out.splitlines()) == 1


# A plug-in needs none of the knobs that attnx's own searches have.
LIKELIEST = """\
from attnx.decoding.greedy import Greedy
from attnx.registry import register


@register("decoding", "likeliest")
class Likeliest:
    def check(self, model):
        return None

    def __call__(self, *inputs, **options):
        return Greedy()(*inputs, **options)
"""


@pytest.mark.usefixtures("material", "no_pictures")
@pytest.mark.parametrize("search", ["sampling", "likeliest"])
def test_a_search_other_than_a_beam_is_exported_as_greedy(
    search: str, command: Callable[..., Any], run_exported: Any
) -> None:
    Path("plugins").mkdir()
    Path("plugins/likeliest.py").write_text(LIKELIEST, encoding="utf-8")
    train(*WORDS, f"decoding={search}")
    answer = command("export", "one", "--format", "torch", "--out", "out")
    assert f"decoding={search} is not exported; run.py searches greedily" in answer.out
    Path("asked.txt").write_text("dab\nke\n", encoding="utf-8")
    assert run_exported("asked.txt")[1] == command("predict", "one", "asked.txt", "decoding=greedy").out


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("value\n0.5\nnan\n", "bad.csv: has a number that is not finite"),
        ("1\n,\n3\n", "bad.csv: its rows have different lengths"),
        ("1\n3,4\n", "bad.csv: its rows have different lengths"),
        ("1\n3\n5\n", "bad.csv: has 3 points, more than 2"),
        ("3\n3\n", "bad.csv: has two equal points"),
        ("1,2\n3,4\n", r"bad.csv: the model reads 1 features, not a matrix of shape \(2, 2\)"),
    ],
)
def test_a_matrix_that_the_model_cannot_read_is_refused(rows: str, message: str, work_folder: Path) -> None:
    Path("bad.csv").write_text(rows, encoding="utf-8")
    with pytest.raises(text_module.InvalidLine, match=message):
        text_module.read_matrix(Path("bad.csv"), {"step_names": None, "columns": [], "most": 2, "distinct": True}, 1)


@pytest.mark.parametrize("name", ["bad.npy", "bad.npz", "empty.npz"])
def test_a_damaged_matrix_is_refused(name: str, work_folder: Path) -> None:
    """An empty file, a packed one that is cut off, and one without arrays."""
    Path("bad.npy").touch()
    np.savez("whole.npz", features=np.zeros((5, 1)))
    Path("bad.npz").write_bytes(Path("whole.npz").read_bytes()[:150])
    np.savez("empty.npz")
    with pytest.raises(text_module.InvalidLine, match=f"{name}: "):
        text_module.read_matrix(Path(name), {"step_names": None, "columns": []}, 1)


def test_a_tokenizer_of_a_plug_in_is_not_exported() -> None:
    """The runner would cut texts by another one."""
    task = {"name": "language_model", "tokenizer": "syllables", "lower": False, "unicode_form": "nfc"}
    with pytest.raises(UserError, match=r"task\.tokenizer=syllables: the tokenizer of a plug-in cannot be exported"):
        text_rules(task)
    with pytest.raises(text_module.InvalidLine, match="unknown tokenizer 'syllables'"):
        text_module.load_tokenizer({"file": "source.tokenizer", "tokenizer": "syllables"}, Path())


@pytest.mark.parametrize("lower", [True, False])
def test_the_runner_splits_texts_like_the_task(lower: bool) -> None:
    rule = {"lower": lower, "texts": 1}
    for text in (
        "Won \u00a33.50!! Call now...  It's free",
        "\u0939\u093f\u0928\u094d\u0926\u0940 cafe\u0301?!",
        "a-b",
        "3,000.5.",
    ):
        assert tuple(text_module.tokenize_texts(text, rule)) == split_sentences(text, lower)
    with pytest.raises(text_module.InvalidLine, match="expected two texts with a tab between"):
        text_module.tokenize_texts("one", {"lower": lower, "texts": 2})


@pytest.mark.parametrize("form", ["as_is", "nfc", "nfd", "jamo"])
def test_the_runner_splits_letters_like_the_task(form: Any) -> None:
    for text in ("e\u0301\uac01 x", "\u00e9", "\u1100\u1161"):
        assert tuple(text_module.split_graphemes(text, {"form": form})) == split_graphemes(text, form)


@pytest.mark.parametrize("name", ["bpe", "unigram", "wordpiece", "bytes", "character", "word"])
def test_the_runner_tokenizes_like_each_tokenizer(name: str, tmp_path: Path) -> None:
    trained = registry.build("tokenizer", name)
    trained.train(
        ["Ein Hund, ein (roter) Ball!", "l'ami dit: oui", "low lower lowest"] * 5, 300 if name == "bytes" else 60
    )
    trained.save(tmp_path / "one")
    cuts, joins = text_module.load_tokenizer({"tokenizer": name, "file": "one"}, tmp_path)
    for text in ("Ein Hund, lowest!", "l'ami (oui)", "z\u00fc \uffed x\u0301", "▁a"):
        assert tuple(cuts(text)) == trained.tokenize(text)
        assert joins(list(trained.tokenize(text))) == trained.detokenize(trained.tokenize(text))
