"""Laws of complete runs, for each model: two processes equal one, and a killed run resumes equally."""

import io
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from attnx.training.fit import resume
from attnx.training.lightning_module import TrainingModule
from tests.runs.conftest import exit_code, fit_run, fork, kill_at

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="forks, and looks into /proc"),
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
    pytest.mark.usefixtures("forked_ranks"),
]
TWO = ["trainer=ddp", "trainer.devices=2", "trainer.batch_size=3", "trainer.accumulate_grad_batches=2"]
# Of each a composition with whatever makes training something of its own, and no chance in it.
MODELS = {
    "pointer": [
        *("recipe=pointer", "task=pointing", "task.problem=sorting", "task.examples=59", "task.num_held_out=7"),
        *("task.sizes=[2,3,5]", "model.constraint=distinct", "model.embedding_dim=5", "encoder.hidden_size=7"),
        *("decoder.hidden_size=11", "scorer.hidden_size=3"),
    ],
    "entity": [
        *("recipe=entnet", "task.data=world_model", "task.stories=31", "task.statements=5", "model.hidden_size=5"),
        *("model.num_slots=3", "trainer.test_examples=7"),
    ],
    "transformer": [
        *("recipe=transformer", "task.train=words.tsv", "task.holdout=0.15", "model.hidden_size=10", "model.layers=2"),
        *("attention.heads=2", "model.dropout=0"),
    ],
    "history": [
        *("task=forecasting", "task.file=series.csv", "task.lookback=7", "task.horizon=3", "task.split=[71,13,13]"),
        *("task.quantiles=[0.5,0.9]", "task.forecast=recursive", "model=history", "recipe=attention_rnn"),
        *("model.embedding_dim=5", "decoder.hidden_size=7", "scorer.hidden_size=5"),
    ],
}
CHANCE = {"entity": "model.dropout=0.3", "transformer": "model.dropout=0.3", "history": "model.dropout=0.3"}


@pytest.fixture
def make(words, no_pictures, sized):
    """Make a small run of a model: ``make("pointer", "trainer.max_steps=5", folder="one")``."""
    lines = [f"{step * 37 % 11},{step % 5}" if step % 13 else f",{step % 5}" for step in range(97)]
    Path("series.csv").write_text("\n".join(["a,b", *lines]), encoding="utf-8")

    def train_small(model: str, *overrides: str, folder: str) -> Any:
        return fit_run(sized("trainer.num_validations=2", *overrides, defaults=MODELS[model]), folder)

    return train_small


@pytest.mark.parametrize("model", MODELS)
def test_two_processes_learn_the_same_as_one(model, make, weights):
    """In two turns each, beside one process whose batch is as large as both of theirs together."""
    options = ["trainer.max_steps=11", "trainer.gradient_clip_val=0.1"]
    make(model, *options, "trainer.batch_size=12", folder="one")
    make(model, *options, *TWO, folder="two")
    alone, together = weights("one"), weights("two")
    assert alone.keys() == together.keys()
    assert max(float((alone[name] - together[name]).abs().max()) for name in alone) < 1e-5


@pytest.mark.parametrize("model", MODELS)
def test_a_killed_run_resumes_with_equal_results(model, make, same_weights, metric_rows):
    """It is killed in its seventh step of nine, of which its last checkpoint holds six: the middle of an epoch."""
    options = ["trainer.max_steps=9", "trainer.batch_size=8", "trainer.checkpoint_every=3"]
    options += [CHANCE[model]] if model in CHANCE else []
    make(model, *options, folder="whole")

    def cut() -> None:
        kill_at(TrainingModule, "training_step", 7)
        make(model, *options, folder="cut")

    assert exit_code(fork(cut)) == -signal.SIGKILL
    assert torch.load("cut/checkpoints/last.ckpt", weights_only=True)["global_step"] == 6
    resume("cut", console=Console(file=io.StringIO()))
    assert same_weights(["whole", "cut"])
    assert metric_rows("whole") == metric_rows("cut")
    assert Path("whole/predictions.tsv").read_bytes() == Path("cut/predictions.tsv").read_bytes()
