"""Averages of weights, by a callback or ``trainer.ema``: what was validated is tested, and training goes on."""

from typing import Any

import pytest
import torch
from torch import Tensor

import attnx
from attnx.training.callbacks import weight_average
from tests.runs.conftest import write_plug_in

# As users write it: the mean of the weights of all steps, for validations alone.
MEAN = '''
"""The callback ``mean``."""

from typing import Any

import torch
from lightning.pytorch.callbacks import Callback

from attnx.registry import register


@register("callback", "mean")
class Mean(Callback):
    """Validates the mean of the weights so far."""

    def __init__(self) -> None:
        self.count, self.means = 0, []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        self.count += 1
        weights = [weight.detach() for weight in pl_module.parameters()]
        self.means = self.means or [torch.zeros_like(weight) for weight in weights]
        self.means = [mean + (weight - mean) / self.count for mean, weight in zip(self.means, weights)]

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self.swap(pl_module)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        torch.save(pl_module.model.state_dict(), f"validated-{trainer.global_step}.pt")
        self.swap(pl_module)

    def swap(self, pl_module: Any) -> None:
        weights = list(pl_module.parameters())
        kept = [weight.detach().clone() for weight in weights]
        for weight, mean in zip(weights, self.means):
            weight.data.copy_(mean)
        self.means = kept

    def state_dict(self) -> dict:
        return {"count": self.count, "means": self.means}

    def load_state_dict(self, state: dict) -> None:
        self.count, self.means = state["count"], state["means"]
'''
LIGHTNINGS = '''
"""The callback ``average``."""

from lightning.pytorch.callbacks import EMAWeightAveraging

from attnx.registry import Probability, register


@register("callback", "average")
class Average(EMAWeightAveraging):
    """Lightning's moving average of the weights."""

    def __init__(self, decay: Probability = 0.5) -> None:
        super().__init__(decay=decay)
'''


@pytest.fixture
def plugins(work_folder):
    for name, text in {"mean": MEAN, "average": LIGHTNINGS}.items():
        write_plug_in(name, text)


def equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return all(torch.equal(weight, second[name]) for name, weight in first.items())


def test_the_validated_weights_are_tested_and_loaded(plugins, run):
    trained = run("callback=[mean]", "trainer.max_steps=7", "trainer.num_validations=1", folder="one")
    validated = torch.load("validated-7.pt")
    assert equal(trained.model.state_dict(), validated)
    assert equal(attnx.open_run("one").model.state_dict(), validated)
    last = torch.load("one/checkpoints/last.ckpt", weights_only=True)
    assert not equal({f"model.{name}": weight for name, weight in validated.items()}, last["state_dict"])


def test_training_goes_on_from_the_other_weights(plugins, whole_and_cut, command, same_weights):
    options = ["callback=[mean]", "trainer.max_steps=9", "trainer.num_validations=3"]
    whole_and_cut(*options, step=6)
    assert command("resume", "cut").code == 0
    assert same_weights(["whole", "cut"])


def test_lightnings_average_is_tested_and_loaded(plugins, run):
    """It stores the average as the weights of the checkpoint, beside those that training goes on from."""
    trained = run("callback=[average]", "trainer.max_steps=7", "trainer.num_validations=1", folder="one")
    best = torch.load("one/checkpoints/best.ckpt", weights_only=True)
    for name, weight in trained.model.state_dict().items():
        assert torch.equal(weight, best["state_dict"][f"model.{name}"])
    current = {name.removeprefix("model."): weight for name, weight in best["current_model_state"].items()}
    assert not equal(trained.model.state_dict(), current)


def test_weights_that_nobody_swaps_are_stored_once(run):
    run("trainer.max_steps=3", "trainer.num_validations=1", folder="one")
    assert "validated_state_dict" not in torch.load("one/checkpoints/last.ckpt", weights_only=True)


DECAY = 0.3


@pytest.fixture
def weights_of_steps(monkeypatch):
    """The weights before training and after each step, as runs go on."""
    seen: list[dict[str, Tensor]] = []

    def note(module: Any) -> None:
        seen.append({name: weight.detach().clone() for name, weight in module.model.named_parameters()})

    class Watched(weight_average.WeightAverage):
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            super().on_train_start(trainer, pl_module)
            note(pl_module)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *rest: Any) -> None:
            super().on_train_batch_end(trainer, pl_module, *rest)
            note(pl_module)

    monkeypatch.setattr("attnx.training.train.WeightAverage", Watched)
    return seen


@pytest.mark.parametrize("batches", [1, 2])
def test_the_average_is_tested_and_kept(batches, run, weights, weights_of_steps):
    """After steps 1 to 4, of one batch or two, the average keeps 2/11, 3/12, 4/13 and DECAY of itself."""
    steps = ["trainer.max_steps=4", f"trainer.accumulate_grad_batches={batches}", "optimizer.lr=1"]  # which are long
    trained = run(f"trainer.ema={DECAY}", "trainer.num_validations=1", *steps, folder="one")
    expected = weights_of_steps[0]
    for decay, after in zip([2 / 11, 3 / 12, DECAY, DECAY], weights_of_steps[batches::batches], strict=True):
        expected = {name: decay * expected[name] + (1 - decay) * weight for name, weight in after.items()}
    for name, weight in trained.model.named_parameters():
        torch.testing.assert_close(weight.detach(), expected[name])
    assert equal({f"model.{name}": weight for name, weight in weights_of_steps[-1].items()}, weights("one"))


def test_it_does_not_change_the_training(run, weights, weights_of_steps):
    run("trainer.ema=0.9", "trainer.max_steps=4", "trainer.num_validations=3", folder="one")
    run("trainer.max_steps=4", "trainer.num_validations=1", folder="plain")
    assert equal({f"model.{name}": weight for name, weight in weights_of_steps[-1].items()}, weights("plain"))
