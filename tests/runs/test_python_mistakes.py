"""Mistakes in Python are reported in one line, like those of the command line."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import attnx
from attnx.training.fit import sole_training
from tests.refusal import refusal_message


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ("scorer=dot seed=3", "attnx.fit(attnx.compose(['scorer=dot', 'seed=3']))"),
        (["scorer=dot"], "attnx.fit(attnx.compose(['scorer=dot']))"),
        ({"scorer": "dot"}, "attnx.fit(attnx.compose(['scorer=dot']))"),
        (None, "attnx.fit(attnx.compose(['scorer=dot']))"),
    ],
)
def test_an_invalid_configuration_is_refused(value, advice):
    assert refusal_message(attnx.fit, value) == f"fit takes a configuration from compose: {advice}"
    assert not Path("multirun").exists()


def test_a_changed_configuration_is_checked(words):
    """One that was changed after it was composed."""
    config = attnx.compose(["task.train=words.tsv"])
    assert refusal_message(attnx.fit, {**config, "scorer": {"name": "dott"}}).startswith(
        "unknown scorer 'dott'; did you mean dot?;"
    )
    assert refusal_message(attnx.fit, {**config, "logger": ["wandb"]}).startswith(
        'logger=["wandb"]: expected options by'
    )
    assert refusal_message(attnx.fit, {**config, "speed": 3}) == "'speed' is not a key of a run; remove it"
    assert refusal_message(attnx.fit, {**config, "seed": "one"}) == "seed=one: expected a whole number, 0 or more"
    for key, value in (("match", "flops"), ("budget", "flops")):
        message = f"{key}={value} makes the jobs of a sweep cost the same, and this is one run; add -m, or leave it out"
        assert refusal_message(attnx.fit, {**config, key: value}) == message
    config["trainer"]["batch_size"] = 0
    assert refusal_message(attnx.fit, config).startswith("trainer.batch_size=0: expected a whole number, 1 or more")
    assert not Path("multirun").exists()


def test_a_run_that_its_process_would_change_is_refused(words):
    config = attnx.compose(["task.train=words.tsv"])
    with ThreadPoolExecutor(1) as thread, sole_training():
        message = "another thread of this process trains a run; train each run in a process of its own"
        assert thread.submit(refusal_message, attnx.fit, config).result() == message
    with torch.autocast("cpu", torch.bfloat16):
        message = "a run is trained in the precision of trainer.precision; call fit outside torch.autocast"
        assert refusal_message(attnx.fit, config) == message
    assert not Path("multirun").exists()


@pytest.mark.parametrize("value", [{"scorer": "dot"}, [3], None, "scorer=dot"])
def test_an_invalid_list_of_words_is_refused(value):
    """Of overrides, filters and choices: of one string each letter would be a word."""
    message = f"{value!r}: give a list of"
    assert refusal_message(attnx.compose, value) == f"{message} overrides, as in compose(['scorer=dot'])"
    fit = partial(attnx.fit, attnx.compose(["scorer=dot"]))
    assert refusal_message(fit, value) == f"{message} overrides, as in fit(config, ['scorer=dot'])"
    assert refusal_message(attnx.report, "one", value) == f"{message} filters, as in report('one', ['scorer=dot'])"
    advice = "choices, as in report('one', best_over=['optimizer.lr'])"
    assert refusal_message(attnx.report, "one", best_over=value) == f"{message} {advice}"
    assert not Path("multirun").exists()


@pytest.mark.parametrize("value", [None, 3, [3], []])
def test_an_invalid_list_of_folders_is_refused(value):
    message = f"{value!r}: name a folder, or a list of folders, as in report('multirun/scorers')"
    assert refusal_message(attnx.report, value) == message


@pytest.mark.parametrize("value", [None, 3, ["one"]])
def test_an_invalid_folder_is_refused(value):
    message = f"{value!r}: name one run folder; several are opened as an ensemble by open_ensemble"
    assert refusal_message(attnx.open_run, value) == message
    assert refusal_message(attnx.open_ensemble, [value]) == message
    assert refusal_message(attnx.open_ensemble, 3) == "3: give a list of run folders, or use open_run"
    assert "expected" not in refusal_message(attnx.open_run, "nowhere")


def test_an_invalid_source_is_refused(runs):
    run = attnx.open_run("one")
    assert "empty source" in refusal_message(run.predict, [""])
    for source in (3, None, ["d", "a", "b"], b"dab"):
        message = f"cannot predict from {source!r}: this run reads text, a word or a sentence each"
        assert refusal_message(run.predict, [source]) == message
    for sources in (3, None, "dab"):
        assert (
            refusal_message(run.predict, sources)
            == f"{sources!r}: give a list of sources, as in predict([{sources!r}])"
        )
    assert refusal_message(run.predict, [np.zeros((3, 4))]).endswith("not a matrix of shape (3, 4)")
    assert refusal_message(run.predict, ["dab"], nbest="3") == "nbest='3': expected a whole number, 1 or more"
    assert refusal_message(run.predict, ["dab"], decoding=5).startswith(
        "decoding=5: expected a name, or a name with options"
    )
    assert refusal_message(attnx.open_run, "one", 3).startswith(
        "one/checkpoints/3.ckpt: no such checkpoint; choose from best"
    )


def test_an_invalid_part_is_refused():
    for name in (3, "a b", "null"):
        message = refusal_message(attnx.register, "scorer", name)
        assert message.startswith(f"cannot register {name!r}: a part's name is one word")
    assert refusal_message(attnx.register("scorer", "mine"), 3).startswith("cannot register 3 as the scorer 'mine'")
