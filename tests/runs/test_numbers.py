"""Complete runs that predict matrices: trained, reopened, resumed, evaluated, drawn; and each mistake in the data."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnx
from attnx.data.features import FeatureScaler
from attnx.reports.figures.curves import draw_numeric_predictions
from attnx.reports.figures.heatmaps import draw_means
from attnx.runs.alignments import read_alignment
from attnx.training.fit import resume
from tests.runs.conftest import PARTS, change_info, feature_matrix, results, run_info, table, write_parts
from tests.terminal_text import compare_folders

Matrix = np.ndarray[Any, np.dtype[np.float32]]
NUMBERS = ["task=sequences", "task.source=features", "task.target=features"]


def right(number: int) -> Matrix:
    """What is to be written: two columns far from each other in size, a step for each that is read and one more."""
    steps = np.arange(3 + number % 5, dtype=np.float32)
    return np.stack([1000 + steps * number, steps % 2 / 1000], axis=1)


def write_csv(name: str, matrix: Matrix, columns: str = "") -> str:
    """Write a matrix; with ``columns`` the first of these is the name of each step."""
    lines = [",".join(map(str, row)) for row in matrix.tolist()]
    if columns:
        lines = [columns, *(f"8:0{step},{line}" for step, line in enumerate(lines))]
    Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return name


def write_files(
    source: Callable[[int], str] = lambda n: write_csv(f"in{n}.csv", feature_matrix(n)),
    target: Callable[[int], str] = lambda n: write_csv(f"out{n}.csv", right(n), "at,valve,pump"),
) -> list[str]:
    """The parts' tables and their files; what names them."""
    return ["task.target_step_names=at", *write_parts(lambda n: f"{source(n)}\t{target(n)}")]


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory, train_in, sized):
    """A folder with features and a run from them to others, ``one``."""
    home = tmp_path_factory.mktemp("numbers")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        parts = write_files()
    train_in(home, *sized(*NUMBERS, *parts, "trainer.max_steps=20"), folder="one")
    return home


@pytest.fixture
def trained_run(trained_folder, work_folder):
    """That run, from its copy in the test's own folder."""
    shutil.copytree(trained_folder, work_folder, dirs_exist_ok=True)
    return attnx.open_run("one")


def test_a_reopened_run_predicts_the_test_predictions(trained_run):
    """In the units of the data, whose scales are those of the training split's targets alone."""
    steps = np.concatenate([right(n) for n in PARTS["train"]]).astype(np.float64)
    assert isinstance(trained_run.target, FeatureScaler)
    assert trained_run.target.mean == pytest.approx(steps.mean(0))
    assert trained_run.target.scale == pytest.approx(steps.std(0))
    assert trained_run.target.columns == ("valve", "pump")
    predictions = trained_run.predict([feature_matrix(n) for n in PARTS["test"]], need_weights=True)
    with np.load("one/predictions.npz") as arrays:
        for row, n, prediction in zip(table("one/predictions.tsv"), PARTS["test"], predictions, strict=True):
            assert arrays[row["prediction"]] == pytest.approx(prediction.output, rel=1e-5)
            assert arrays[row["reference"]] == pytest.approx(right(n))
            assert prediction.log_probability == pytest.approx(float(row["log_probability"]), abs=1e-4)
            assert prediction.weights.shape == (len(prediction.output), len(feature_matrix(n)))
            assert prediction.output.dtype == np.float64
    assert not Path("one/vocabulary/target.json").exists()
    for wrong, message in (("up", "not text"), (feature_matrix(3)[:, :2], "3 features")):
        with pytest.raises(attnx.UserError, match=message):
            trained_run.predict([wrong])


def test_results_follow_from_predictions(trained_run):
    """Errors over all steps that both have; scaled and longer ones as the page says; a line tells of each sequence."""
    rows = table("one/predictions.tsv")
    assert [row["name"] for row in rows] == [f"in{n}.csv" for n in PARTS["test"]]
    with np.load("one/predictions.npz") as arrays:
        pairs = [(arrays[row["prediction"]].astype(float), arrays[row["reference"]].astype(float)) for row in rows]
    errors = [written[: len(reference)] - reference[: len(written)] for written, reference in pairs]
    together = np.concatenate(errors)
    scores = results("one")
    assert scores["test_mean_absolute_error"] == pytest.approx(np.abs(together).mean())
    assert scores["test_root_mean_squared_error"] == pytest.approx(np.sqrt((together**2).mean()))
    assert scores["test_length_error"] == pytest.approx(np.mean([abs(len(a) - len(b)) for a, b in pairs]))
    for row, (written, reference), error in zip(rows, pairs, errors, strict=True):
        assert (int(row["steps"]), int(row["reference_steps"])) == (len(written), len(reference))
        assert float(row["mean_absolute_error"]) == pytest.approx(np.abs(error).mean(), rel=1e-4)
        assert float(row["root_mean_squared_error"]) == pytest.approx(np.sqrt((error**2).mean()), rel=1e-4)
    mean, scale = np.array(trained_run.target.mean), np.array(trained_run.target.scale)
    squares = 0.0
    for written, reference in pairs:
        missing = np.broadcast_to(mean, (max(0, len(reference) - len(written)), 2))
        beyond = np.broadcast_to(mean, (max(0, len(written) - len(reference)), 2))
        squares += (((np.concatenate([written, missing]) - np.concatenate([reference, beyond])) / scale) ** 2).sum()
    assert scores["test_scaled_error"] == pytest.approx(
        np.sqrt(squares / sum(reference.size for _, reference in pairs))
    )
    info = run_info("one")
    assert info["monitor"] == "valid_scaled_error"
    assert "source 3 features, target 2 features" in info["data"]
    logged = Path("one/metrics.csv").read_text(encoding="utf-8").splitlines()[0].split(",")
    assert {"valid_loss", "valid_scaled_error", "valid_length_error"} < set(logged)
    assert "valid_perplexity" not in logged, "numbers have none"
    assert scores["train_tokens_per_second"] > scores["train_examples_per_second"] > 0


def test_symbols_are_mapped_to_numbers_with_sampling(run, no_pictures):
    """The source may be symbols, predicted rows are fed back, and the reopened run reads a text."""
    overrides = write_files(source=lambda n: f"x{n} " + "y " * (n % 4))
    run(NUMBERS[0], NUMBERS[2], *overrides, "model.scheduled_sampling=0.7", "scope=encoder_decoder", folder="one")
    (prediction,) = attnx.open_run("one").predict(["x36"], need_weights=True)
    with np.load("one/predictions.npz") as arrays:
        assert arrays["prediction_0"] == pytest.approx(prediction.output, rel=1e-5)
    assert table("one/predictions.tsv")[0]["source"] == "x36"
    assert "name" not in table("one/predictions.tsv")[0]
    assert prediction.num_decoder_states == len(prediction.output)


def test_a_resumed_run_ends_with_equal_weights(run, no_pictures, same_weights):
    overrides = [*NUMBERS, *write_files()]
    run(*overrides, folder="one")
    run(*overrides, folder="two")
    change_info("two", status="interrupted")
    resume("two")
    assert same_weights(["one", "two"])
    assert table("one/predictions.tsv") == table("two/predictions.tsv")
    write_csv("out3.csv", right(3) + 1, "at,valve,pump")
    change_info("two", status="interrupted")
    with pytest.raises(attnx.UserError, match="the training data have changed"):
        resume("two")


def test_tags_are_read_and_scored(run, no_pictures):
    """The same source twice, with a target for each speaker."""
    names = {tag: "".join(f"{tag}{n}.csv " for n in range(43)).split() for tag in ("ann", "bob")}
    lines = []
    for n in range(43):
        for tag, sign in (("ann", 1), ("bob", -1)):
            target = write_csv(names[tag][n], sign * right(n))
            lines.append(f"{write_csv(f'in{n}.csv', feature_matrix(n))}\t{target}\t{tag}\n")
    Path("all.tsv").write_text("".join(lines), encoding="utf-8")
    run(*NUMBERS, "task.train=all.tsv", "task.tagged=true", "model.tag_inputs=[decoder]", folder="one")
    scores = results("one")
    errors = [scores[f"test_scaled_error_{tag}"] for tag in ("ann", "bob")]
    assert scores["test_scaled_error_macro"] == pytest.approx(sum(errors) / 2)
    assert {row["tag"] for row in table("one/predictions.tsv")} == {"ann", "bob"}
    reopened = attnx.open_run("one")
    ann, bob = (reopened.predict([feature_matrix(3)], tag=tag)[0].output for tag in ("ann", "bob"))
    assert ann.shape != bob.shape or not np.allclose(ann, bob)


def test_pictures_label_files_and_steps(trained_run):
    """Heat maps have the steps' names beside them and files above; curves are drawn of both, column by column."""
    arrays = sorted(Path("one/alignments").glob("*.npz"))
    assert arrays
    for array in arrays:
        alignment = read_alignment(array)
        axes = draw_means([alignment]).axes[0]
        n = int(alignment.name.removeprefix("in").removesuffix(".csv"))
        assert alignment.reference == tuple(f"8:0{step}" for step in range(len(right(n))))
        labels = [*alignment.reference, *map(str, range(len(right(n)), 99))][: len(alignment.output)]
        assert list(alignment.output) == labels
        title = axes.get_title(loc="left").replace("\n", " ")
        assert title.startswith(f"in{n}.csv \u2192 {len(alignment.output)} steps")
        assert alignment.is_right is (None if len(alignment.output) == len(right(n)) else False)
    (drawn,) = draw_numeric_predictions("one")
    assert drawn == Path("one/predictions.png")
    assert drawn.stat().st_size > 1000


def test_a_run_of_symbols_draws_no_curves(run):
    run(folder="one")
    assert draw_numeric_predictions("one") == []


def test_runs_of_numbers_are_compared(trained_run):
    """By their metrics, less being better; what is for symbols alone is left out."""
    rows, text = compare_folders("one", "one")
    value = f"{results('one')['test_scaled_error']:,.2f}"
    assert [cell.partition(" ")[0] for cell in rows["test_scaled_error"]] == [value] * 2
    assert "WER" not in text


def test_the_run_folder_describes_itself(trained_run):
    text = Path("one/README.md").read_text(encoding="utf-8")
    assert "| `predictions.npz` |" in text
    assert "test_scaled_error" in text


# Overrides for a table of sixty pairs, and the message.
MISTAKES = {
    "task.train=twice.tsv": (
        "twice.tsv:3: a second target of 'in1.csv'; a source has only one if targets are features"
    ),
    "task.train=wide.tsv": "wide.tsv:2: wide.csv: 3 features per step, but out1.csv has 2",
    "task.train=named.tsv": "named.tsv:2: turned.csv: its columns are pump, valve, but named.csv has valve, p",
    "task.train=gap.tsv": "gap.tsv:2: gap.csv:2: nan in column 2 is not a finite 32-bit number",
    "task.train=gone.tsv": "gone.tsv:2: gone.csv: no such file",
    "task.train=text.tsv": "text.tsv:2: up: unknown ending",
    "task.label_smoothing=0.1": "task.label_smoothing=0.1 has no effect beside task.target=features",
    "task.target_step_names=when": "train.tsv:1: out0.csv: has no 'when' to name its steps",
    "task.target=words task.target_step_names=at": "task.target_step_names=at has no effect beside task.target=words",
    "model.tie_embeddings=true": (
        "model.tie_embeddings=true needs target symbols to embed, but the target is made of features; remove it"
    ),
    "model.target_vectors=v.txt": "model.target_vectors: the target is made of features, not of symbols with vectors",
}


@pytest.mark.parametrize(("overrides", "message"), MISTAKES.items())
def test_mistakes_give_one_line_and_leave_nothing(overrides, message, refuse, sized, small):
    lines = [f"{write_csv(f'in{n}.csv', feature_matrix(n))}\t{write_csv(f'out{n}.csv', right(n))}\n" for n in range(60)]
    for name, numbers in (("wide", feature_matrix(3)), ("gap", np.array([[1.0, 2.0], [3.0, np.nan]], np.float32))):
        write_csv(f"{name}.csv", numbers)
    for name, columns in (("named", "valve,pump"), ("turned", "pump,valve")):
        Path(f"{name}.csv").write_text(f"{columns}\n1,2\n", encoding="utf-8")
    tables = {
        "train": lines,
        "twice": [lines[1], lines[2], "in1.csv\tout2.csv\n"],
        "wide": [lines[1], "in2.csv\twide.csv\n"],
        "named": ["in1.csv\tnamed.csv\n", "in2.csv\tturned.csv\n"],
        "gap": [lines[1], "in2.csv\tgap.csv\n"],
        "gone": [lines[1], "in2.csv\tgone.csv\n"],
        "text": [lines[1], "in2.csv\tup\n"],
    }
    for name, content in tables.items():
        Path(f"{name}.tsv").write_text("".join(content), encoding="utf-8")
    assert message in refuse(*sized(*overrides.split(), defaults=[*small[1:], *NUMBERS, "task.train=train.tsv"]))
