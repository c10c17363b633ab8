"""Runs on sets by their names, a few steps of each experiment where its data are; and forms from a table to a file."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.runs.conftest import results, write_lines

FEW = ["trainer.max_steps=2", "trainer.num_validations=1", "trainer.valid_examples=5", "trainer.test_examples=5"]
EXPERIMENTS = {
    "electricity_96": ("electricity", [], "test_linear_mse"),
    "ettm1_96": ("ettm1/ETTm1.csv", ["task.stride=997"], "test_linear_mse"),
    "inflection_turkish": ("sigmorphon2018/turkish-test", [], "test_edit_distance"),
    "tinystories": ("tinystories", ["model.hidden_size=8"], "test_perplexity"),
    "weather_96": ("weather", ["task.stride=997"], "test_linear_mse"),
}


def run_small(command: Callable[..., Any], *words: str) -> dict[str, Any]:
    assert command(*words, *FEW, "folder=one").code == 0
    return results("one")


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs_data(path)) for name, (path, _, _) in EXPERIMENTS.items()]
)
def test_an_experiment_runs_on_its_set(name, command):
    _, words, metric = EXPERIMENTS[name]
    assert metric in run_small(command, f"experiment={name}", *words)


@pytest.mark.usefixtures("no_pictures")
def test_the_experiment_on_lists_needs_no_data(command):
    scores = run_small(command, "experiment=listops", "task.examples=64", "task.num_held_out=17")
    assert {"test_accuracy", "test_macro_f1"} < scores.keys()


@pytest.mark.usefixtures("no_pictures")
def test_forms_are_learned_measured_and_predicted(command):
    forms = [(number, *form) for number in range(61) for form in (("e", "DAT"), ("ler", "PL"))]
    write_lines("forms.tsv", [f"x{number}\tx{number}{end}\tN;{case}" for number, end, case in forms])
    sizes = ["encoder.hidden_size=7", "decoder.hidden_size=11"]
    scores = run_small(command, "task=inflection", "task.train=forms.tsv", "task.holdout=0.1", *sizes)
    assert {"test_accuracy", "test_edit_distance"} < scores.keys()
    write_lines("words.tsv", ["x7\tN;PL", "x8"])
    answer = command("predict", "one", "words.tsv")
    assert answer.code == 2
    assert "words.tsv:2" in answer.err
    assert "expected a lemma, a tab and its features" in answer.err
    write_lines("words.tsv", ["x7\tN;PL"])
    assert command("predict", "one", "words.tsv").code == 0
