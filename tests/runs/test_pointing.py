"""Pointing runs: each problem, resumed, reopened, evaluated on larger problems, exported and drawn."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnx
from attnx.export.folder import export
from attnx.problems.pointing.figures import PointAnswer, answer_lines, draw_points, title
from tests.runs.conftest import fit_run, results, table

SMALL = [
    "recipe=pointer",
    "task=pointing",
    "task.examples=31",
    "task.num_held_out=7",
    "task.sizes=[5,3]",
    "task.test=[3,5,7]",
    "model.embedding_dim=5",
    "encoder.hidden_size=7",
    "decoder.hidden_size=11",
    "scorer.hidden_size=3",
    "trainer.batch_size=8",
    "trainer.max_steps=5",
    "trainer.num_validations=2",
]
# Metrics of others are in known/test_pointing_metrics.py, and sorting is evaluated below.
PROBLEMS = {
    "hull": {"accuracy", "area_coverage", "well_formed"},
    "tsp": {"accuracy", "tour_length", "tour_ratio", "well_formed"},
}


@pytest.fixture
def make(no_pictures):
    """Make a small run."""

    def train_small(*overrides: str, folder: str, without: str = "") -> Any:
        given_keys = {without, *(word.partition("=")[0] for word in overrides)}
        return fit_run([*(word for word in SMALL if word.partition("=")[0] not in given_keys), *overrides], folder)

    return train_small


@pytest.mark.parametrize("problem", PROBLEMS)
def test_each_problem_trains_and_predicts(problem, make, work_folder, saved_traces):
    """The metrics are of each size, too; a reopened run answers as it did in the test; the points are drawn."""
    only = "ring" if problem == "hull" else "permutation"
    make(f"task.problem={problem}", f"model.constraint={only}", folder="one")
    scores = results("one")
    for metric in PROBLEMS[problem]:
        assert {f"test_{metric}", *(f"test_{metric}_{size}" for size in (3, 5, 7))} <= set(scores)
    if problem == "tsp":
        assert scores["test_well_formed"] == 100
    rows = table("one/predictions.tsv")
    assert [row["source"] for row in rows] == [" ".join(map(str, range(1, size + 1))) for size in (3, 5, 7, 3, 5, 7, 3)]
    reopened = attnx.open_run("one")
    task = reopened.task
    for pair, row in zip(task.test_pairs(), rows, strict=True):
        (prediction,) = reopened.predict([pair.features], need_weights=True)
        assert task.detokenize(prediction.output) == row["prediction"]
        assert prediction.log_probability == pytest.approx(float(row["log_probability"]), abs=1e-4)
        assert prediction.weights.shape[1] == len(pair.source)
    assert draw_points("one") == [Path("one/points.png")]
    for (best,), trace in saved_traces("one"):  # the last position is the end
        (read,) = (hypothesis.read for hypothesis in trace.hypotheses)
        assert read.weights[0, :, :-1] == pytest.approx(best.weights, abs=1e-4)


def test_a_run_is_evaluated_on_larger_problems(make, succeed, no_pictures):
    """On more points than it has met."""
    make("task.problem=sorting", "model.constraint=permutation", folder="one")
    no_pictures.undo()
    for search in ("greedy", "beam"):
        succeed("evaluate", "one", "task.test=8-11", f"decoding={search}")
    folders = list(Path("one/evaluations").iterdir())
    assert len(folders) == 2
    for folder in folders:
        scores = results(str(folder))
        assert scores["test_well_formed"] == 100
        assert {f"test_accuracy_{size}" for size in (8, 9, 10, 11)} <= set(scores)
        assert (folder / "points.png").read_bytes()[:4] == b"\x89PNG"
        readme = (folder / "README.md").read_text(encoding="utf-8")
        assert "| `points.png` | some answers drawn among their points |" in readme
        assert not list(folder.glob("by_*.tsv"))


def test_validations_in_double_precision_are_drawn(make):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    make("task.problem=sorting", "trainer.precision=64", "+logger=tensorboard", folder="one")
    assert accumulator.EventAccumulator("one/tensorboard").Reload().Images("valid/alignments")


def test_a_pointer_run_is_exported(make, work_folder):
    """What runs without attnx gives what the run gives, whatever the size."""
    run = make("model.constraint=ring", folder="one")
    for package in ("onnx", "onnxruntime"):
        pytest.importorskip(package, reason="the extra attnx[export] is not installed")
    checked = export(Path("one"), Path("out"), run.task.test_pairs())
    assert checked.outputs == 7
    assert checked.max_difference < 1e-4


def test_invalid_inputs_are_refused(make, work_folder):
    run = make(folder="one")
    wrong: dict[str, Any] = {
        "the points 1 and 3 are both": np.array([[0.5, 0.25], [0.5, 0.5], [0.5, 0.25]]),
        "1001 points are more than 1000": np.arange(2002.0).reshape(1001, 2),
        "reads 2 features": np.zeros((5, 3)),
        "NaN": np.array([[0.5, np.nan]]),
        "not text": "0.5 0.25",
    }
    for message, source in wrong.items():
        with pytest.raises(attnx.UserError, match=message):
            run.predict([source])


def test_a_model_without_pointing_trains(make, work_folder):
    """The paper's other models write the same positions as symbols."""
    make("model=seq2seq", folder="one", without="recipe")
    assert "test_accuracy" in results("one")


def test_a_picture_shows_what_was_written():
    """Of a triangle, and of numbers in the order in which they were written."""
    points = np.array([[0, 0], [3, 0], [3, 4]])
    assert [line.tolist() for line in answer_lines(points, [0, 1, 2, 0], "hull")] == [[[0, 0], [3, 0], [3, 4], [0, 0]]]
    assert len(answer_lines(points, [0, 1, 2, 0, 1], "delaunay")) == 1
    (line,) = answer_lines(np.array([[0.5], [0.25]]), [1, 0], "sorting")
    assert line.tolist() == [[0, 0.25], [1, 0.5]]
    assert title(PointAnswer(points, [1, 2, 0], [0, 1, 2, 0]), "hull") == "3 points: right"
    assert title(PointAnswer(points, [0, 1], [0, 1, 2, 0]), "hull") == "3 points: wrong"
    assert title(PointAnswer(points, [0, 1, -1, 2, 0], [0, 1, 2, 0]), "hull") == "3 points: wrong"
    assert title(PointAnswer(points, [2, 1, 0], [0, 1, 2]), "tsp") == "3 points: 12.00, reference 12.00"
    assert answer_lines(points, [], "hull") == []
