"""Language models: perplexity, continuations, and refused configurations."""

import io
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import attnx
from attnx.errors import UserError
from attnx.tasks.language_model import LanguageModel
from tests.runs.conftest import fit_run, results, table

SMALL = [
    "task=language_model",
    "task.train=text.txt",
    "task.holdout=0.2",
    "task.max_length=11",
    "recipe=attention_rnn",
    "model.embedding_dim=5",
    "decoder.hidden_size=7",
    "trainer.batch_size=8",
    "trainer.max_steps=4",
    "trainer.num_validations=2",
]
WORDS = ("red", "green", "blue", "gray")


@pytest.fixture
def text():
    """Sixty lines of four to seven colors, all different."""
    lines = [" ".join(WORDS[(number // 4**place) % 4] for place in range(4 + number % 4)) for number in range(60)]
    Path("text.txt").write_text("\n".join(dict.fromkeys(lines)) + "\n", encoding="utf-8")


MIXERS = [
    *SMALL[:4],
    "model=transformer",
    "model.form=decoder_only",
    "model.hidden_size=8",
    "model.layers=2",
    *SMALL[-3:],
]


# A text of seven words is eight steps, of which attention keeps a key and a value of eight numbers.
SIZES = {"[{name: delta, heads: 2},standard]": 2 * 16 + 3 * 24 + 8 * 16, "lstm": 32}


@pytest.mark.parametrize(("mixer", "size"), SIZES.items())
def test_a_model_with_mixers_trains_and_continues_texts(mixer, size, text, no_pictures, succeed):
    """Its results have the bytes of a row's state: of delta two matrices of 4 by 4 and three inputs of 24."""
    scorer = ["scorer=scaled"] if "standard" in mixer else []
    overrides = [*MIXERS, f"model.mixer={mixer}", *scorer, "folder=one"]
    succeed(*overrides)
    assert results("one")["state_bytes"] == 4 * size
    (prediction,) = attnx.open_run("one").predict(["red green"], need_weights=True)
    assert prediction.output[:2] == ["red", "green"]
    assert bool(scorer) == Path("one/alignments").exists()
    succeed("evaluate", "one", "decoding=beam")


@pytest.mark.usefixtures("text", "no_pictures")
def test_a_recurrent_model_without_attention_has_no_context(succeed, refuse):
    """Its parameters are those of the recurrence; all at once it computes what the steps of a search compute."""
    overrides = [word for word in SMALL if not word.startswith("recipe")]
    succeed(*overrides, "attention=none", "folder=one")
    model: Any = attnx.open_run("one").model
    assert model.decoder.layers[0].input_size == model.embedding.embedding_dim
    inputs = torch.tensor([[1, 5, 4, 6]])
    nothing = torch.zeros(1, 0, dtype=torch.int64)
    with torch.no_grad():
        known = model(nothing, nothing.bool(), inputs).logits.log_softmax(-1)
        state = model.init_state(nothing, nothing.bool())
        for step in range(4):
            log_probs, state, _ = model.decode_step(inputs[:, step], state)
            torch.testing.assert_close(log_probs, known[:, step])
    (prediction,) = attnx.open_run("one").predict(["red green"])
    assert prediction.output[:2] == ["red", "green"]
    line = refuse(*overrides, "attention=none", "model.feed=now")
    assert "model.feed=now has no effect beside attention=none and task=language_model" in line


@pytest.fixture
def trained_run(text, no_pictures):
    """A run, ``one``."""
    return fit_run(SMALL, "one")


def test_a_run_reports_perplexity_and_continues_texts(trained_run, succeed, saved_traces):
    opened = trained_run
    for (best,), trace in saved_traces("one"):
        ((read, candidates),) = trace.hypotheses
        assert read.weights[0] == pytest.approx(best.weights, abs=1e-4)
        assert best.output[0] in [symbol for symbol, _ in candidates[0]]
    scores = results("one")
    assert scores["test_perplexity"] == pytest.approx(math.exp(scores["test_loss"]), rel=1e-5)
    # Four words, the unknown one and the end are all that can come next: an untrained model knows no more than that.
    assert 1 < scores["test_perplexity"] < 9
    rows = table("one/predictions.tsv")
    for row in rows:
        prompt, right = row["source"].split(), row["references"].split()
        assert prompt == right[: (len(right) + 1) // 2]
        assert row["prediction"].split()[: len(prompt)] == prompt
    reopened = attnx.open_run("one")
    for item in (opened, reopened):
        (prediction,) = item.predict(["red green"], need_weights=True)
        assert prediction.output[:2] == ["red", "green"]
        assert prediction.num_decoder_states > 0
    drawn = reopened.predict(["red green"], decoding=("sampling", {"nbest": 5}))[0]
    assert all(second.output[:2] == ["red", "green"] for second in (drawn, *drawn.alternatives))
    with pytest.raises(attnx.UserError, match="there is nothing to read"):
        reopened.predict([" "])
    # The same text again, as a file of its own: what it measures is what the loss of its texts is.
    Path("more.txt").write_text("red green blue\ngray gray\n", encoding="utf-8")
    succeed("evaluate", "one", "task.test=more.txt")
    again = results("one/evaluations/more")
    assert again["test_perplexity"] == pytest.approx(math.exp(again["test_loss"]), rel=1e-5)
    assert again["test_examples"] == 2
    assert not list(Path("one/evaluations/more").glob("by_*.tsv"))
    succeed("evaluate", "one", "one", "task.test=more.txt")
    assert results("one/evaluations/more-ensemble=2")["test_loss"] == pytest.approx(again["test_loss"], rel=1e-5)


def test_the_command_samples_continuations(trained_run, succeed, monkeypatch):
    """What is drawn depends on the prompt and the seed alone, and begins with the prompt, which comes from a pipe."""

    def draw_texts(prompts: str, *options: str) -> list[list[str]]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(prompts.encode())))
        output = succeed("predict", "one", "-", "decoding=sampling", "decoding.nbest=7", "--nbest", "7", *options)
        return [line.split("\t") for line in output.splitlines()]

    rows = draw_texts("red green\nblue\n", "decoding.seed=3")
    assert [row[:2] for row in rows] == [[line, str(rank)] for line in "12" for rank in range(1, 8)]
    for line, _, _, text in rows:
        assert text.split()[: 3 - int(line)] == {"1": ["red", "green"], "2": ["blue"]}[line]
        assert set(text.split()) <= {*WORDS, "⁇"}
    assert len({row[3] for row in rows[:7]}) > 1
    assert draw_texts("red green\nblue\n", "decoding.seed=3") == rows
    alone = draw_texts("blue\n", "decoding.seed=3")
    assert [row[3] for row in alone] == [row[3] for row in rows[7:]]
    # Not to the bit: how a product is summed may depend on how many rows it has.
    assert [float(row[2]) for row in alone] == pytest.approx([float(row[2]) for row in rows[7:]], abs=1e-4)
    assert [row[3] for row in draw_texts("red green\nblue\n", "decoding.seed=5")] != [row[3] for row in rows]
    # Hardly anything is left to chance where only the likeliest may come.
    assert len({row[3] for row in draw_texts("blue\n", "decoding.top_k=1")}) == 1


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("scope=global", "has no source, and scope.sources=[encoder] reads one; use scope=history"),
        ("model.bridge=last", "model.bridge=last needs an encoder, and task=language_model has none"),
        ("model=history", "the same network is model=seq2seq with recipe=attention_rnn"),
        (
            "encoder.hidden_size=7",
            "encoder.hidden_size=7 has no effect beside task=language_model, which has no source",
        ),
        ("task.train=none.txt", "none.txt"),
    ],
)
def test_invalid_settings_are_refused(refuse, text, override, message):
    assert message in refuse(*SMALL, override)


def test_a_test_file_without_texts_is_refused(work_folder):
    Path("blank.txt").write_text("\n \n", encoding="utf-8")
    with pytest.raises(UserError, match=r"blank\.txt: holds no text"):
        LanguageModel(train="text.txt", test="blank.txt").test_pairs()


def test_a_split_of_which_the_tokenizer_leaves_nothing_is_refused(work_folder, text):
    """Before anything is trained."""
    Path("mark.txt").write_text("\u2581\n", encoding="utf-8")
    with pytest.raises(UserError, match="the test split holds no pairs"):
        LanguageModel(train="text.txt", test="mark.txt", tokenizer="bpe", vocab_size=40).load()
