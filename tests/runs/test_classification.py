"""Complete runs of classification: trained, reopened, evaluated, predicted on the command line; public data."""

import os
from pathlib import Path
from typing import Any

import pytest

import attnx
from attnx.runs.alignments import read_saved_alignments
from attnx.tasks.classification import Classification
from tests.runs.conftest import fit_run, results

TRAINING = ["task=classification", "model=classifier", "encoder.hidden_size=6", "model.embedding_dim=5"]
TRAINING += ["trainer.batch_size=8", "trainer.num_validations=1", "trainer.max_steps=60", "optimizer.lr=0.05"]


@pytest.fixture
def texts(work_folder, no_pictures):
    weather = [("rains", "wet"), ("shines", "dry")]
    lines = [f"this is text {n} . it {weather[n % 2][0]} !\t{weather[n % 2][1]}\n" for n in range(90)]
    Path("texts.tsv").write_text("".join(lines), encoding="utf-8")


def train(folder: str, *overrides: str) -> Any:
    return fit_run((*overrides, "task.train=texts.tsv"), folder)


def test_a_run_from_its_file_to_labels(texts, command, refuse):
    train("one", *TRAINING)
    scores = results("one")
    header, *rows = (line.split("\t") for line in Path("one/predictions.tsv").read_text(encoding="utf-8").splitlines())
    assert header[:3] == ["source", "prediction", "references"]
    assert scores["test_accuracy"] == pytest.approx(100 * sum(row[1] == row[2] for row in rows) / len(rows))
    assert scores["test_accuracy"] > 80
    assert "test_macro_f1" in scores
    Path("lines.txt").write_text("Today it rains\n", encoding="utf-8")
    answer = command("predict", "one", "lines.txt", "--nbest", "2")
    assert answer.code == 0, answer.err
    assert sorted(line.split("\t")[3] for line in answer.out.splitlines()) == ["dry", "wet"]
    assert "this run's is one label" in refuse("predict", "one", "lines.txt", "--unknown", "keep")
    Path("more.tsv").write_text("it rains!\twet\nit shines\twet\n", encoding="utf-8")
    assert command("evaluate", "one", "task.test=more.tsv").code == 0
    (evaluation,) = Path("one/evaluations").iterdir()
    assert results(evaluation)["test_accuracy"] == 50
    (_, best), *_ = (next(iter(hypotheses.items())) for hypotheses in read_saved_alignments(Path("one")))
    assert best.weights.shape == (1, len(best.source))
    assert best.weights.sum() == pytest.approx(1, abs=1e-5)


def test_a_run_of_pairs_from_its_file_to_labels(work_folder, no_pictures, command):
    places = ["home", "town", "wood"]
    lines = [
        f"{places[n % 3]} {n // 9}\t{places[n // 3 % 3]}\t{'same' if n % 3 == n // 3 % 3 else 'other'}\n"
        for n in range(270)
    ]
    Path("texts.tsv").write_text("".join(lines), encoding="utf-8")
    run = train("one", "recipe=co_attention", *TRAINING[2:5], "trainer.num_validations=1", "trainer.max_steps=2")
    assert run.source.symbols[4:6] == (".", "<sep>")
    best = next(iter(read_saved_alignments(Path("one"))[0].values()))
    assert "<sep>" in best.source
    assert best.weights.shape == (1, len(best.source))
    Path("lines.tsv").write_text("home\ttown\nhome\n", encoding="utf-8")
    answer = command("predict", "one", "lines.tsv")
    assert answer.code == 2
    assert "lines.tsv:2: 'home' has 1 column; expected two texts" in answer.err
    assert answer.out.strip() in ("same", "other")
    Path("more.tsv").write_text("home\ttown\tother\n", encoding="utf-8")
    assert command("evaluate", "one", "task.test=more.tsv").code == 0
    Path("more.tsv").write_text("home\tother\n", encoding="utf-8")
    assert "more.tsv:1: 2 columns" in command("evaluate", "one", "task.test=more.tsv").err


def test_another_model_learns_the_same_labels(texts):
    run = train("two", "task=classification", "decoder.hidden_size=7", *TRAINING[2:6], "trainer.max_steps=2")
    assert len(run.predict(["it rains"])) == 1


@pytest.mark.needs_data("sms_spam")
def test_public_messages_are_read():
    file = Path(os.environ["ATTNX_DATA"], "sms_spam", "messages.tsv")
    data = Classification(train=str(file), label="first").load()
    assert sum(map(len, data.pairs)) == 5574
    assert data.target.symbols[4:] == ("ham", "spam")


def test_the_package_opens_the_run(texts):
    train("three", *TRAINING[:6], "trainer.max_steps=1")
    (prediction,) = attnx.open_run("three").predict(["it rains"], need_weights=True)
    assert prediction.weights is not None
    assert prediction.weights.shape == (1, 3)
