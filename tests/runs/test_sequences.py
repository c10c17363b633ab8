"""Complete runs on every kind of sequence: text, whole numbers, feature matrices; and the documented examples."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnx
from attnx.data.splits import hash_fraction
from attnx.data.vocabulary import SPECIALS
from attnx.reports.figures.heatmaps import draw_means
from attnx.runs.alignments import read_alignment
from attnx.runs.predictions import write_symbols
from attnx.tasks.sequences import AnySequence
from tests.runs.conftest import feature_matrix, results, table, write_parts

PAGE = Path(__file__).parents[2] / "docs" / "sequences.md"
SECTIONS = PAGE.read_text(encoding="utf-8").split("\n## ")
SCRIPTS = PAGE.parent / "examples"
EXAMPLES = dict(re.findall(r"^```sh\npython docs/examples/make_(\w+)\.py\nattnx (.+)\n```", "\n".join(SECTIONS), re.M))
FEW = ["encoder.hidden_size=7", "decoder.hidden_size=11", "trainer.max_steps=5", "trainer.num_validations=2"]
FEW += ["trainer.valid_examples=7", "trainer.test_examples=7"]
# One line of each kind: the source as the file has it, and as the model reads it.
SOURCES: dict[str, tuple[Callable[[int], str], Callable[[int], tuple[str, ...]]]] = {
    "words": (lambda n: f"x{n % 7} =  y{n}", lambda n: (f"x{n % 7}", "=", f"y{n}")),
    "characters": (lambda n: f"{n} May", lambda n: (*str(n), " ", "M", "a", "y")),
    "ids": (lambda n: f"{n % 5} 0{n}", lambda n: (str(n % 5), str(n))),
}
TARGETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "words": ("aa bb", ("aa", "bb")),
    "characters": ("a b", ("a", " ", "b")),
    "ids": ("12 007", ("12", "7")),
}


def write_table(path: Path, source: Callable[[int], str], target: str, numbers: range) -> None:
    path.write_text("".join(f"{source(n)}\t{target}\n" for n in numbers), encoding="utf-8")


def write_csv(number: int) -> str:
    """Write a matrix with time stamps, and return the file's name as a table in the same folder has it."""
    Path("rows").mkdir(exist_ok=True)
    lines = [f"9:0{step},{','.join(map(str, row))}" for step, row in enumerate(feature_matrix(number).tolist())]
    Path(f"rows/{number}.csv").write_text("\n".join(["at,x,y,z", *lines]), encoding="utf-8")
    return f"rows/{number}.csv"


def write_npz(number: int) -> str:
    """The same without time stamps."""
    np.savez(f"{number}.npz", feature_matrix(number))
    return f"{number}.npz"


FILES = {"csv": (write_csv, ["task.step_names=at"]), "npz": (write_npz, [])}


def write_pairs(source: Callable[[int], str], target: str) -> list[str]:
    """31 pairs to train on, 5 to validate and 7 to test; what names them."""
    return ["task=sequences", *write_parts(lambda n: f"{source(n)}\t{target}")]


def load_task(**options: Any) -> Any:
    """What the task makes of a table."""
    return AnySequence(train="train.tsv", **options).load()


def block(section: str) -> str:
    """The one block of Python in a section of the page."""
    (text,) = re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)
    return str(text)


@pytest.mark.parametrize(("source", "target"), [*zip(SOURCES, ["characters", "ids", "words"], strict=True)])
def test_each_kind_of_symbols_trains(source, target, run, no_pictures):
    """A run is trained, and a reopened one answers as it did in the test."""
    (written, read), (field, symbols) = SOURCES[source], TARGETS[target]
    run(*write_pairs(written, field), f"task.source={source}", f"task.target={target}", folder="one")
    rows = table("one/predictions.tsv")
    assert [row["source"] for row in rows] == [" ".join(read(n)).replace("   ", " ␣ ") for n in range(36, 43)]
    assert {row["references"] for row in rows} == {" ".join(symbols).replace("   ", " ␣ ")}
    reopened = attnx.open_run("one")
    assert set(reopened.target.symbols) - set(SPECIALS) == set(symbols)
    for n, row in zip(range(36, 43), rows, strict=True):
        (prediction,) = reopened.predict([f" {written(n)} "], need_weights=True)
        assert prediction.pair.source == read(n)
        assert write_symbols(prediction.output) == row["prediction"]
        assert prediction.log_probability == pytest.approx(float(row["log_probability"]), abs=1e-4)
        assert prediction.weights is not None
        assert prediction.weights.shape[1] == len(read(n))
        assert reopened.task.detokenize(prediction.output) == ("" if target == "characters" else " ").join(
            prediction.output
        )


@pytest.mark.parametrize("kind", FILES)
def test_each_kind_of_features_trains(kind, run_once):
    """Scaled by the training split only; a reopened run reads the unscaled numbers of the file."""
    write, step_names = FILES[kind]
    run_once(*write_pairs(write, "up down"), "task.source=features", *step_names, folder="one")
    rows = table("one/predictions.tsv")
    expected = [[f"9:0{step}" if step_names else str(step) for step in range(2 + n % 5)] for n in range(36, 43)]
    assert [row["source"].split() for row in rows] == expected
    reopened = attnx.open_run("one")
    steps = np.concatenate([feature_matrix(n) for n in range(31)]).astype(np.float64)
    assert reopened.source.mean == pytest.approx(steps.mean(0))
    assert reopened.source.scale == pytest.approx([*steps.std(0)[:2], 1])
    predictions = reopened.predict([feature_matrix(n) for n in range(36, 43)], need_weights=True)
    for n, prediction, row in zip(range(36, 43), predictions, rows, strict=True):
        assert " ".join(prediction.output) == row["prediction"]
        assert prediction.log_probability == pytest.approx(float(row["log_probability"]), abs=1e-4)
        assert prediction.weights is not None
        assert prediction.weights.shape[1] == len(feature_matrix(n))
    assert len({prediction.log_probability for prediction in predictions}) > 1, (
        "what is in the matrix makes no difference"
    )
    for wrong, message in (
        ("up", "not text"),
        (feature_matrix(3)[:, :2], "3 features"),
        (feature_matrix(3)[0], "3 features"),
    ):
        with pytest.raises(attnx.UserError, match=message):
            reopened.predict([wrong])


def test_a_picture_is_labeled_with_step_names(run_once):
    """And its title with that of the file, which stands in the table of predictions, too."""
    run_once(*write_pairs(write_csv, "up down"), "task.source=features", "task.step_names=at", folder="one")
    arrays = sorted(Path("one/alignments").glob("*.npz"))
    assert arrays
    for array in arrays:
        alignment = read_alignment(array)
        assert alignment.source == tuple(f"9:0{step}" for step in range(alignment.weights.shape[1]))
        labels = draw_means([alignment]).axes[0].get_xticklabels()
        assert [label.get_text() for label in labels] == list(alignment.source)
        title = draw_means([alignment]).axes[0].get_title(loc="left")
        assert title.startswith(f"{alignment.name} \u2192")
        assert alignment.name in {f"rows/{n}.csv" for n in range(36, 43)}
    assert [row["name"] for row in table("one/predictions.tsv")] == [f"rows/{n}.csv" for n in range(36, 43)]


def test_columns_of_other_names_are_refused(run_once, refuse):
    """Whether a reopened run reads them or is measured on them."""
    run_once(*write_pairs(write_csv, "up down"), "task.source=features", "task.step_names=at", folder="one")
    Path("turned.csv").write_text("at,y,x,z\n9:00,1,2,3\n", encoding="utf-8")
    Path("turned.tsv").write_text("turned.csv\tup\n", encoding="utf-8")
    message = "its columns are y, x, z, but this run was trained on x, y, z; give the same ones, in the same order"
    for overrides, line in (
        (["predict", "one", "turned.tsv", "--column", "1"], ""),
        (["evaluate", "one", "task.test=turned.tsv"], "; the line is 'turned.csv\\tup'"),
    ):
        assert refuse(*overrides) == f"attnx: turned.tsv:1: turned.csv: {message}{line}\n"


def test_tags_are_read_and_scored(run, no_pictures):
    """The same file of features twice, once for each speaker."""
    lines = [f"{write_npz(n)}\tup {tag}\t{tag}\n" for n in range(43) for tag in ("ann", "bob")]
    Path("all.tsv").write_text("".join(lines), encoding="utf-8")
    tagged = ["task.source=features", "task.tagged=true", "model.tag_inputs=[encoder]"]
    run("task=sequences", "task.train=all.tsv", *tagged, folder="one")
    scores = results("one")
    for rate in ("symbol_error_rate", "sequence_error_rate"):
        rates = [scores[f"test_{rate}_{tag}"] for tag in ("ann", "bob")]
        assert scores[f"test_{rate}_macro"] == pytest.approx(sum(rates) / 2)
    reopened = attnx.open_run("one")
    ann, bob = (reopened.predict([feature_matrix(3)], tag=tag)[0] for tag in ("ann", "bob"))
    assert ann.log_probability != bob.log_probability


def test_results_follow_from_predictions(run, no_pictures):
    run(*write_pairs(SOURCES["ids"][0], "12 7 3"), "task.source=ids", "trainer.max_steps=30", folder="one")
    edits = [int(row["edits"]) for row in table("one/predictions.tsv")]
    assert results("one")["test_symbol_error_rate"] == pytest.approx(100 * sum(edits) / (7 * 3))
    assert results("one")["test_sequence_error_rate"] == pytest.approx(100 * sum(edit > 0 for edit in edits) / 7)


@pytest.mark.parametrize("kind", ["words", "features"])
def test_the_hash_of_a_source_decides_its_part(kind, work_folder):
    """Of a file of features its name. Whatever else the table holds, no source changes its part."""
    source = write_npz if kind == "features" else SOURCES["words"][0]
    for count in (60, 97):
        write_table(Path("train.tsv"), source, "up", range(count))
        pairs = load_task(source=kind, holdout=0.15).pairs
        names = [" ".join(source(n).split()) for n in range(count)]
        fractions = {name: hash_fraction(name) for name in names}
        assert len(pairs.test) == sum(fraction < 0.3 for fraction in fractions.values()) > 0
        assert len(pairs.valid) == sum(fraction >= 0.85 for fraction in fractions.values()) > 0
        assert sum(map(len, pairs)) == count
    if kind == "words":
        for part in (pairs.valid, pairs.test):
            fraction = [hash_fraction(" ".join(pair.source)) for pair in part]
            assert fraction == sorted(fraction)


def test_a_given_part_is_used_unchanged(work_folder):
    """What it shares with the training split is noted, and all else is still held out of that."""
    write_table(Path("train.tsv"), SOURCES["words"][0], "up", range(97))
    write_table(Path("valid.tsv"), SOURCES["words"][0], "up", range(92, 103))
    task = AnySequence(train="train.tsv", valid="valid.tsv", holdout=0.15)
    pairs = task.load().pairs
    assert [pair.source for pair in pairs.valid] == [SOURCES["words"][1](n) for n in range(92, 103)]
    assert len(pairs.train) + len(pairs.test) == 97
    assert 0 < len(pairs.test) < 97
    trained = {pair.source for pair in pairs.train}
    overlap = sum(pair.source in trained for pair in pairs.valid)
    assert 0 < overlap <= 5
    assert task.notes == [f"{overlap} of 11 sources of the valid split are also in the training split"]


def test_feature_files_of_two_folders_are_two_sources(work_folder):
    """However they are called; one file under two names is one."""
    for folder, numbers in (("train", range(31)), ("valid", range(31, 38))):
        Path(folder).mkdir()
        names = [f"{index}.npy" for index in range(len(numbers))]
        for name, number in zip(names, numbers, strict=True):
            np.save(f"{folder}/{name}", feature_matrix(number))
        Path(folder, "list.tsv").write_text("".join(f"{name}\tup\n" for name in names))
    Path("test.tsv").write_text("train/7.npy\tup\nvalid/3.npy\tup\n")
    task = AnySequence("train/list.tsv", "valid/list.tsv", "test.tsv", source="features", target="words")
    task.load()
    assert task.notes == ["1 of 2 sources of the test split are also in the training split"]


def test_ids_are_sorted_by_number(work_folder):
    """Not in that of their digits."""
    write_table(Path("train.tsv"), lambda n: f"0{n} 100 9", "100 20 3", range(31))
    data = load_task(source="ids", target="ids", holdout=0.15)
    assert data.target.symbols[4:] == ("3", "20", "100")
    numbers = [int(symbol) for symbol in data.source.symbols[4:]]
    assert numbers == sorted(numbers)
    assert {9, 100} < set(numbers)


@pytest.mark.parametrize(
    ("source", "text", "message"),
    [
        ("words", " \t", "is empty; there is nothing to read"),
        ("ids", "12 x", "'x' is not an id"),
        ("features", "a.csv", "reads matrices of numbers, not text"),
    ],
)
def test_invalid_inputs_are_refused(source, text, message):
    with pytest.raises(attnx.UserError, match=message):
        AnySequence(source=source).tokenize(text)


MISTAKES = {
    "task.train=null": "task.train is not set: name a TSV file",
    "task.train=none.tsv": "none.tsv: no such file",
    "task.train=$NOT_SET/a.tsv": "the environment variable NOT_SET is not set",
    "task.source=ids": "train.tsv:1: 'x0' is not an id",
    "task.source=features": "train.tsv:1: x0 =  y0: unknown ending",
    "task.source=letters": "task.source=letters: expected one of characters, words, ids, features",
    "task.target=features": "train.tsv:1: up: unknown ending",
    "task.target=bytes": "task.target=bytes: expected one of characters, words, ids, features",
    "task.tagged=true": "train.tsv:1: 2 columns; expected a text, a tab, a text, a tab, a tag",
    "task.step_names=at": "task.step_names=at has no effect beside task.source=words; leave it out",
    "task.holdout=0.34": "the held-out shares valid=0.34 and test=0.68 must be 0 or more and sum to less than 1",
    "task.holdout=0": "the valid split holds no pairs; raise task.holdout, or give more data",
    "task.train=nan.tsv task.source=features": "nan.tsv:1: nan.npy: row 1, counted from 0: nan in column 0",
}


@pytest.mark.parametrize(("overrides", "message"), MISTAKES.items())
def test_mistakes_give_one_line_and_leave_nothing(overrides, message, refuse, sized, small):
    write_table(Path("train.tsv"), SOURCES["words"][0], "up", range(60))
    np.save("nan.npy", np.array([[0.0, 1.0], [np.nan, 1.0]]))
    Path("nan.tsv").write_text("nan.npy\tup\n", encoding="utf-8")
    defaults = [*small[1:], "task.train=train.tsv"]
    assert message in refuse("task=sequences", *sized(*overrides.split(), defaults=defaults), "folder=one")


def test_there_is_an_example_of_each_kind():
    assert set(EXAMPLES) == {"code", "clicks", "names", "sensor", "controls"}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_the_page_train(example, command, succeed, no_pictures, work_folder):
    """Its data are made by its script, and its command trains on them; the line that it shows is in the file."""
    section = next(section for section in SECTIONS if f"make_{example}.py" in section)
    script = SCRIPTS / f"make_{example}.py"
    exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), {})
    table = Path(f"{example}.tsv").read_text(encoding="utf-8").splitlines()
    for source, target in re.findall("^A line of the file: `(.+?)`, a tab, `(.+?)`", section, re.M):
        assert f"{source}\t{target}" in table
    overrides = dict(word.split("=", 1) for word in [*EXAMPLES[example].split(), *FEW])
    folder = overrides.setdefault("folder", "one")
    succeed(*(f"{option}={value}" for option, value in overrides.items()))
    metrics = ("scaled_error", "length_error") if example == "controls" else ("symbol_error_rate",)
    assert {f"test_{metric}" for metric in metrics} < set(results(folder))
    assert results(folder)["test_examples"] == 7
    if example == "controls":
        (numbers,) = (section for section in SECTIONS if section.startswith("Numbers out"))
        exec(compile(block(numbers), "Numbers out", "exec"), {})
    if example == "sensor":
        (listening,) = re.findall("^attnx (recipe=las_location .+)", "\n".join(SECTIONS), re.M)
        overrides = dict(word.split("=", 1) for word in [*listening.split(), *FEW])
        assert command(*(f"{option}={value}" for option, value in overrides.items())).code == 0
        alignment = read_alignment(sorted(Path(overrides["folder"], "alignments").glob("*.npz"))[-1])
        assert alignment.weights.shape == (len(alignment.output), len(alignment.source)), "a column for each row"
        np.testing.assert_allclose(alignment.weights.sum(-1), 1, rtol=1e-4)
        recorded: dict[str, Any] = {}
        exec(compile(block(SECTIONS[-1]), "From Python", "exec"), recorded)
        assert recorded["prediction"].weights.shape[1] == len(recorded["recording"].steps)
