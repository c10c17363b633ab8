"""``trainer.ema``: a moving average of the weights is validated, kept and tested, and training goes on without it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnx.training.callbacks import weight_average

DECAY = 0.3


@pytest.fixture
def weights_of_steps(monkeypatch):
    """The weights before training and after each step, as runs go on."""
    seen: list[dict[str, torch.Tensor]] = []

    class Watched(weight_average.WeightAverage):
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            super().on_train_start(trainer, pl_module)
            seen.append({name: weight.detach().clone() for name, weight in pl_module.model.named_parameters()})

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *rest: Any) -> None:
            super().on_train_batch_end(trainer, pl_module, *rest)
            seen.append({name: weight.detach().clone() for name, weight in pl_module.model.named_parameters()})

    monkeypatch.setattr("attnx.training.train.WeightAverage", Watched)
    return seen


def test_the_average_is_tested_and_kept(run, weights_of_steps):
    """After steps 1 to 4 the average keeps 2/11, 3/12, 4/13 and DECAY of itself."""
    trained = run(f"trainer.ema={DECAY}", "trainer.max_steps=4", "trainer.num_validations=1", folder="one")
    assert len(weights_of_steps) == 5
    expected = weights_of_steps[0]
    for decay, weights in zip([2 / 11, 3 / 12, DECAY, DECAY], weights_of_steps[1:], strict=True):
        expected = {name: decay * expected[name] + (1 - decay) * weight for name, weight in weights.items()}
    for name, weight in trained.model.named_parameters():
        torch.testing.assert_close(weight.detach(), expected[name])
    last = torch.load("one/checkpoints/last.ckpt", weights_only=True)
    assert all(
        torch.equal(last["state_dict"][f"model.{name}"], weight) for name, weight in weights_of_steps[-1].items()
    )


def test_it_does_not_change_the_training(run, weights_of_steps):
    run("trainer.ema=0.9", "trainer.max_steps=4", "trainer.num_validations=3", folder="one")
    run("trainer.max_steps=4", "trainer.num_validations=1", folder="plain")
    plain = torch.load("plain/checkpoints/last.ckpt", weights_only=True)["state_dict"]
    assert all(torch.equal(plain[f"model.{name}"], weight) for name, weight in weights_of_steps[-1].items())


def test_accumulated_steps_count_once(run, weights_of_steps):
    run("trainer.ema=0.9", "trainer.max_steps=2", "trainer.accumulate_grad_batches=2", folder="one")
    saved = torch.load("one/checkpoints/last.ckpt", weights_only=True)["callbacks"]
    assert [state["steps"] for name, state in saved.items() if "average" in state] == [2]


def test_a_resumed_run_has_the_same_average(whole_and_cut, command, same_weights):
    options = [f"trainer.ema={DECAY}", "trainer.max_steps=9", "trainer.num_validations=3"]
    whole_and_cut(*options, step=5)
    assert command("resume", "cut").code == 0
    assert same_weights(["whole", "cut"])
