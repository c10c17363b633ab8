"""Complete runs over stories: trained, reopened, resumed, predicted, evaluated, drawn; and mistakes."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnx
from attnx.config.compose import compose
from attnx.errors import UserError
from attnx.problems.stories.figures import draw_slots, to_story
from attnx.runs.alignments import read_saved_alignments
from tests.runs.conftest import fit_run, results, table

NAMES, PLACES = ("mary", "john"), ("garden", "kitchen", "hall")
SMALL = [
    "task.folder=stories",
    "model.hidden_size=6",
    "trainer.batch_size=8",
    "trainer.max_steps=6",
    "trainer.num_validations=2",
]
ENTITY = ["recipe=entnet", *SMALL, "model.num_slots=3"]
STORY = "Mary went to the garden. John went to the hall. Where is Mary?"


def write(folder: Path) -> None:
    """Two tasks of sixty stories: one agent moves, or both do; the question varies."""
    folder.mkdir()
    for task, part in [(1, "train"), (1, "test"), (4, "train"), (4, "test")]:
        lines: list[str] = []
        for number in range(60):
            places = PLACES[number % 3], PLACES[number // 3 % 3]
            who = number % 2 if task == 4 else 0
            story = [f"Mary went to the {places[0]}.", f"Number {number} is {part}."]
            story += [f"John went to the {places[1]}."] if task == 4 else []
            story.append(f"Where is {NAMES[who]}?\t{places[who]}\t1")
            lines += [f"{place} {sentence}" for place, sentence in enumerate(story, 1)]
        (folder / f"qa{task}_made_{part}.txt").write_text("\n".join(lines), encoding="utf-8")


def train(folder: str, *overrides: str) -> Any:
    return fit_run(overrides, folder)


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory, train_in):
    """A folder with stories and a run, ``one``, that learned two tasks together."""
    home = tmp_path_factory.mktemp("qa")
    write(home / "stories")
    train_in(home, *ENTITY, "task.tasks=[1,4]", folder="one")
    return home


@pytest.fixture
def run_folder(trained_folder, work_folder):
    """Its copy in the test's own folder."""
    shutil.copytree(trained_folder, work_folder, dirs_exist_ok=True)
    return work_folder / "one"


def test_tasks_are_scored_separately(run_folder):
    errors = {name: results(run_folder)[f"test_error_{name}"] for name in ("macro", "micro", "qa1", "qa4")}
    assert errors["macro"] == pytest.approx((errors["qa1"] + errors["qa4"]) / 2)
    rows = table(run_folder / "predictions.tsv")
    assert next(iter(rows[0])) == "source"
    wrong = [row["prediction"] != row["references"] for row in rows if row["tag"] == "qa4"]
    assert len(rows) == 120
    assert errors["qa4"] == pytest.approx(100 * sum(wrong) / len(wrong))
    assert rows[0]["source"] == "mary went to the garden . number 0 is test . where is mary ?"


def test_a_reopened_run_answers_equally(run_folder):
    run = attnx.open_run(run_folder)
    for row in table(run_folder / "predictions.tsv")[:59:7]:
        (prediction,) = run.predict([row["source"]], tag=row["tag"])
        assert prediction.output == [row["prediction"]]
    with pytest.raises(UserError, match="a story must end with a question"):
        run.predict(["Mary went to the garden."], tag="qa1")
    with pytest.raises(UserError, match="does not read symbols"):
        run.predict([STORY], tag="qa1", unknown="keep")


def test_a_story_is_answered_on_the_command_line(run_folder, succeed):
    Path("asked.txt").write_text(f"{STORY}\n{STORY.replace('.', ' .')}\n", encoding="utf-8")
    output = succeed("predict", "one", "asked.txt", "--tag", "qa4", "--nbest", "3")
    rows = [line.split("\t") for line in output.splitlines()]
    assert [row[0] for row in rows] == ["1"] * 3 + ["2"] * 3
    assert {row[3] for row in rows[:3]} == set(PLACES)
    assert [row[1:] for row in rows[:3]] == [row[1:] for row in rows[3:]]


def test_other_stories_are_evaluated(run_folder, succeed, no_pictures):
    """Those of a file, by a run that knows one task."""
    train("single", *ENTITY)
    output = succeed("evaluate", "single", "task.test=stories/qa4_made_test.txt")
    assert "test_error" in output
    assert "errors by symbol" in output


def test_slot_weights_are_saved_and_drawn(run_folder, saved_traces):
    """Each example holds the gates of every slot where sentences end, and what the question read of it."""
    (_, best), *_ = (next(iter(hypotheses.items())) for hypotheses in read_saved_alignments(run_folder))
    ((read, candidates),) = saved_traces(run_folder)[0][1].hypotheses
    assert read is None  # attention read the slots before the first step
    assert best.output[0] in [symbol for symbol, _ in candidates[0]]
    story = to_story(best)
    run = attnx.open_run(run_folder)
    (prediction,) = run.predict([" ".join(best.source)], tag="qa1", need_weights=True)
    assert story.sentences[0] == "mary went to the garden"
    assert story.question == "where is mary ?"
    assert story.gates.shape == (2, 3)
    np.testing.assert_allclose(story.attention.sum(), 1, rtol=1e-5)
    np.testing.assert_allclose(story.gates.T, prediction.weights[:, 0, [5, 10]], rtol=1e-5)
    np.testing.assert_allclose(story.attention, prediction.weights[:, 0, -1], rtol=1e-5)
    *pictures, page = draw_slots(run_folder)
    assert page == run_folder / "alignments.png"
    assert len(pictures) == 12
    assert all(picture.read_bytes()[:4] == b"\x89PNG" for picture in (*pictures, page))


@pytest.mark.usefixtures("run_folder", "no_pictures")
def test_other_models_train_on_the_same_task():
    sizes = ["model.embedding_dim=6", "encoder.hidden_size=5", "decoder.hidden_size=7"]
    run = train("plain", "task=qa", *[size for size in SMALL if not size.startswith("model.")], *sizes)
    assert len(run.predict([STORY])) == 1


@pytest.mark.usefixtures("run_folder", "no_pictures")
def test_word_keys_are_restored():
    options = [size for size in ENTITY if "slots" not in size]
    run = train("tied", *options, "model.keys=tied", "task.entities=[Mary,John]", "task.tasks=[4]")
    assert run.source.symbols[5:7] == ("mary", "john")
    (prediction,) = run.predict([STORY], need_weights=True)
    assert prediction.weights is not None
    assert prediction.weights.shape == (2, 1, 16)


def test_options_of_the_entity_model_are_refused_by_other_models(run_folder):
    """Its keys are those of an entity net; nor has that an encoder that could lie elsewhere."""
    with pytest.raises(
        UserError,
        match=r"task\.entities=\[mary,john\] has no effect beside model=\w+; leave it out, or use model=entity",
    ):
        compose(["task=qa", "task.entities=[mary,john]"])
    assert compose(["task=qa"])["task"]["entities"] is None
    with pytest.raises(UserError, match=r"placement\.encoder=cpu has no effect beside model=entity"):
        train("placed", *ENTITY, "placement.encoder=cpu")
    assert not Path("placed").exists()


def test_an_ensemble_shows_slots_named_by_words(run_folder, no_pictures):
    """Keys of two runs' own have no order in common, so that there is no mean of what their slots read."""
    train("two", *ENTITY, "task.tasks=[1,4]", "seed=2")
    (prediction,) = attnx.open_ensemble(["one", "two"]).predict([STORY], tag="qa4", need_weights=True)
    assert prediction.weights is None
    options = [*(size for size in ENTITY if "slots" not in size), "model.keys=tied", "task.entities=[Mary,John]"]
    runs = [train(name, *options, f"seed={name}", "task.tasks=[4]") for name in ("3", "5")]
    weights = [run.predict([STORY], need_weights=True)[0].weights for run in runs]
    (prediction,) = attnx.open_ensemble(["3", "5"]).predict([STORY], need_weights=True)
    np.testing.assert_allclose(prediction.weights, (weights[0] + weights[1]) / 2, rtol=1e-5, atol=1e-7)


def test_an_export_is_refused(run_folder, refuse):
    assert "model=entity" in refuse("export", "one")


def test_a_broken_line_is_reported_before_anything_is_written(run_folder, refuse):
    file = Path("stories/qa1_made_train.txt")
    lines = file.read_text(encoding="utf-8").splitlines()
    lines[7] = lines[7].replace("8 ", "").replace("2 ", "two ")
    file.write_text("\n".join(lines), encoding="utf-8")
    assert f"{file}:8: " in refuse(*ENTITY, "folder=broken")
