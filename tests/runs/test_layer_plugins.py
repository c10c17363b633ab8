"""The example plug-ins: encoder, decoder, output layer, mixer, task and callback."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnx.config.compose import compose

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "plugins"


@pytest.fixture(autouse=True)
def with_examples(monkeypatch):
    monkeypatch.setenv("ATTNX_PLUGINS", str(EXAMPLES))


@pytest.mark.parametrize(
    "part", ["encoder=averaging", "decoder=leaky", "output=two_layers", "task=counting", "mixer=moving_average"]
)
def test_an_example_obeys_the_laws(part, command):
    answer = command("check", part)
    assert (answer.code, answer.err) == (0, ""), answer


def test_the_callback_clips_the_norms(run):
    overrides = ["callback=[max_norm]", "callback.max_norm.max_norm=0.25"]
    model = run(*overrides, "trainer.max_steps=2", folder="limited").model
    norms = [weight.norm(dim=1).max() for weight in model.parameters() if weight.dim() == 2]
    assert max(norms) <= 0.25 * (1 + 1e-5)
    assert compose(overrides)["callback"] == {"max_norm": {"max_norm": 0.25}}


def test_an_empty_callback_list_composes():
    assert compose(["callback=[]"])["callback"] == {}
