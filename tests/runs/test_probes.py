"""Probes from a command to results: labels at marked steps, given the true steps, whatever the model."""

from pathlib import Path
from typing import Any

import pytest
import torch

import attnx
from attnx.data.batches import Batch, as_batch
from attnx.tasks.loss import token_loss
from tests.runs.conftest import fit_run, results, table

SMALL = [
    *("task=probe", "task.length=16", "task.pairs=3", "task.vocabulary=26", "task.examples=67", "task.num_held_out=19"),
    *("task.test=[16,16x2,24]", "trainer.batch_size=8", "trainer.max_steps=4", "trainer.num_validations=2"),
]
MODELS = {
    "transformer": [
        *("model=transformer", "model.form=decoder_only", "model.hidden_size=20", "model.layers=2", "scorer=scaled"),
        *("attention.heads=2", "scope=history"),
    ],
    "seq2seq": ["scope=history", "model.embedding_dim=5", "decoder.hidden_size=7"],
}


def marked_logits(run: Any, batch: Batch) -> torch.Tensor:
    """The logits of all steps, of which those that count are picked afterwards."""
    with torch.inference_mode():
        output = run.model(batch.source, batch.source_mask, batch.source, batch.tag)
    return output.logits[batch.loss_mask]


@pytest.mark.parametrize("model", MODELS)
def test_a_run_measures_labels_given_the_true_steps(model, no_pictures, command, refuse):
    run = fit_run([*SMALL, *MODELS[model]], "one")
    task, data = run.task, run.task.load()
    batch = as_batch(data.evaluation_dataset(data.pairs.test))
    logits = marked_logits(run, batch)
    likeliest = logits[:, 4:].argmax(-1) + 4
    right = (likeliest == batch.target[batch.loss_mask]).float()
    shares = [part.mean() for part in right.split(batch.loss_mask.sum(1).tolist())]
    scores = results("one")
    assert scores["test_accuracy"] == pytest.approx(100 * float(torch.stack(shares).mean()))
    named = {"test_accuracy_16x3", "test_accuracy_16x2", "test_accuracy_24x3", "test_distance_accuracy_8_15"}
    assert named < scores.keys()

    losses = torch.nn.functional.cross_entropy(logits[:, 4:], batch.target[batch.loss_mask] - 4, reduction="sum")
    with torch.inference_mode():
        loss = token_loss(run.model, batch)
    torch.testing.assert_close(loss.total, losses)
    assert loss.tokens == batch.loss_mask.sum()

    rows = table("one/predictions.tsv")
    for row, pair in zip(rows, data.pairs.test, strict=True):
        written = row["prediction"].split(" ")
        assert tuple(row["references"].split(" ")) == pair.references[0]
        assert [symbol != "." for symbol in written] == list(pair.loss_mask)
    symbols = [symbol for row in rows for symbol in row["prediction"].split(" ") if symbol != "."]
    assert symbols == [data.target.symbols[index] for index in likeliest.tolist()]

    assert command("evaluate", "one").code == 0
    assert results("one/evaluations/test")["test_accuracy"] == scores["test_accuracy"]
    assert command("evaluate", "one", "task.test=20x2").code == 0
    assert "no decoding to play" in command("page", "one").err
    assert "only models that decode can be exported" in command("export", "one", "--out", "files").err
    Path("in.txt").write_text("3 12 5 17 3 5\n", encoding="utf-8")
    for words in (["predict", "one", "in.txt", "--nbest", "3"], ["evaluate", "one", "decoding=beam"]):
        assert "decodes nothing; leave decoding and nbest out" in refuse(*words)
    (prediction,) = task_predictions(run, "3 12 5 17 3 5")
    assert len(prediction.output) == 6
    assert all(symbol in task.design.problem.symbols for symbol in prediction.output)
    assert task.is_right(list(data.pairs.test[0].references[0]), data.pairs.test[0])


def test_an_ensemble_labels_by_its_mean_probabilities(no_pictures, command):
    runs = [fit_run([*SMALL, *MODELS["seq2seq"], f"seed={seed}"], f"seed{seed}") for seed in (1, 2)]
    assert command("evaluate", "seed1", "seed2").code == 0
    batch = as_batch((data := runs[0].task.load()).evaluation_dataset(data.pairs.test))
    mean = torch.stack([marked_logits(run, batch)[:, 4:].softmax(-1) for run in runs]).mean(0)
    labels = [data.target.symbols[4 + index] for index in mean.argmax(-1).tolist()]
    written = [row["prediction"].split(" ") for row in table("seed1/evaluations/test-ensemble=2/predictions.tsv")]
    assert [symbol for row in written for symbol in row if symbol != "."] == labels
    Path("in.txt").write_text("3 12 5 17 3 5\n", encoding="utf-8")
    assert command("predict", "seed1", "seed2", "in.txt").code == 0


def task_predictions(run: Any, text: str) -> Any:
    predictions = run.predict([text], need_weights=True)
    assert list(predictions[0].state_names(predictions[0].output)) == text.split()
    with pytest.raises(attnx.UserError, match="there is nothing to read"):
        run.predict([" "])
    return predictions
