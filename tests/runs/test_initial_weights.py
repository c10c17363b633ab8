"""``init_from``: a model begins with the weights of another run, where names, shapes and symbols agree."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

import attnx
from attnx.config.compose import compose
from attnx.training.train import prepare

SMALL_MODEL = ["model.embedding_dim=5", "encoder.hidden_size=7", "decoder.hidden_size=11"]


@pytest.fixture
def first(run):
    return run("trainer.max_steps=3", "trainer.num_validations=1", folder="first")


def initialized(*words: str) -> Any:
    """A prepared run that begins with the weights of ``first``."""
    return prepare(compose(["task.train=words.tsv", "task.holdout=0.15", *SMALL_MODEL, "init_from=first", *words]))


def test_equal_models_begin_with_all_weights(first):
    prepared = initialized("seed=2")
    weights = first.model.state_dict()
    assert all(torch.equal(weight, weights[name]) for name, weight in prepared.module.model.state_dict().items())
    assert prepared.initialized == f"{len(weights)} of {len(weights)} from first"


def test_what_does_not_fit_is_listed(first):
    prepared = initialized("scorer=dot", "decoder.hidden_size=13")
    weights, own = first.model.state_dict(), prepared.module.model.state_dict()
    same = [name for name, weight in own.items() if name in weights and weights[name].shape == weight.shape]
    assert all(torch.equal(own[name], weights[name]) for name in same)
    assert prepared.initialized.startswith(f"{len(same)} of {len(own)} from first; not ")
    assert "decoder.layers.0.weight_hh_l0 (44x11 there, 52x13 here)" in prepared.initialized
    assert "attention.scorer" in prepared.initialized  # additive has weights, dot has none
    assert "(only there)" in prepared.initialized


def test_weights_of_other_symbols_are_not_taken(first):
    """As many other letters: shapes agree, but a row of the embedding is another letter's."""
    turned = str.maketrans("abd", "xyz")  # sounds are in capital letters
    Path("others.tsv").write_text(Path("words.tsv").read_text(encoding="utf-8").translate(turned), encoding="utf-8")
    prepared = initialized("task.train=others.tsv")
    assert "source_encoder.embedding.weight (other source symbols)" in prepared.initialized
    own, weights = prepared.module.model.state_dict(), first.model.state_dict()
    assert not torch.equal(own["source_encoder.embedding.weight"], weights["source_encoder.embedding.weight"])
    assert torch.equal(own["embedding.weight"], weights["embedding.weight"])  # the sounds are the same


def test_weights_of_other_columns_are_not_taken():
    """As many columns in another order: a row of the first layer is another column's."""
    Path("series.csv").write_text("a,b\n" + "".join(f"{n % 5},{n % 7}\n" for n in range(61)), encoding="utf-8")
    words = ["task=forecasting", "task.file=series.csv", "task.lookback=3", "task.horizon=2", *SMALL_MODEL]
    words += ["trainer.max_steps=1", "trainer.num_validations=1", "trainer.pictures=false"]
    attnx.fit(compose([*words, "folder=first"]), console=Console(quiet=True))
    for targets, there in (("[a,b]", ""), ("[b,a]", "source_encoder.embedding.weight (other source features)")):
        initialized = prepare(compose([*words, "init_from=first", f"task.target_columns={targets}"])).initialized
        assert there in initialized
        assert ("; not " in initialized) is bool(there)


def test_a_resumed_run_does_not_need_it(first, whole_and_cut, command, same_weights):
    options = ["init_from=first", "trainer.max_steps=6", "trainer.num_validations=2"]
    whole_and_cut(*options, step=4)
    shutil.rmtree("first")
    assert command("resume", "cut").code == 0
    assert same_weights(["whole", "cut"])
