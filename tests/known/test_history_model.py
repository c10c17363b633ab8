"""The model ``history`` equals an explicit loop; its derived configuration."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import registry
from attnx.models.resolve import DataSizes, resolve_model
from tests.conftest import node
from tests.refusal import refused

pytestmark = pytest.mark.usefixtures("float64")
PAST, AHEAD = 3, 2


def config(**choices: Any) -> dict[str, Any]:
    """A plain RNN; the mean of the products as score; the context joins the input."""
    return {
        "scorer": node("scorer", "scaled", scale="dimension"),
        "scope": node("scope", "history"),
        "query": {"previous_state": {}},
        "normalizer": node("normalizer", "softmax"),
        "attention": node("attention", "standard"),
        "model": node("model", "history", embedding_dim=5, feed="now", bridge="zeros"),
        "decoder": node("decoder", "recurrent", cell="rnn", hidden_size=7),
        "readout": node("readout", "joint", inputs=["state"], tanh=False),
        "task": {"name": "forecasting", **registry.check("task", "forecasting", {"horizon": AHEAD})},
        **choices,
    }


def loop(model: Any, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The forecast (t, f), and what its steps read (t, m), of one stream (s, f + k + 1)."""
    (layer,) = model.network.decoder.layers
    state, states = torch.zeros(7), []
    outputs, weights = [], torch.zeros(len(rows), len(rows))
    for t, row in enumerate(rows):
        memory = states[: max(t - 1, 0)]  # the state before the query
        scores = [(state * remembered).mean().exp() for remembered in memory]
        context = torch.zeros(7)
        for j, remembered in enumerate(memory):
            weights[t, j] = scores[j] / sum(scores)
            context = context + weights[t, j] * remembered
        inputs = torch.cat([model.network.embedding.weight @ row + model.network.embedding.bias, context])
        state = torch.tanh(
            layer.weight_ih_l0 @ inputs + layer.bias_ih_l0 + layer.weight_hh_l0 @ state + layer.bias_hh_l0
        )
        states.append(state)
        outputs.append(model.network.output.weight @ state + model.network.output.bias)
    return torch.stack(outputs[-AHEAD:]), weights[-AHEAD:]


@pytest.mark.parametrize("recursive", [False, True])
def test_past_and_horizon_form_one_stream(recursive):
    """Two targets and one column that is known; beside each row whether the targets before it are there."""
    selected = config()
    selected["task"]["forecast"] = "recursive" if recursive else "direct"
    sizes = {"source_symbols": 0, "source_features": 3, "target_symbols": 0, "target_features": 2}
    model: Any = resolve_model(selected).build(DataSizes(tags=0, **sizes))
    past = [[2.0, 3.0, 0.5], [5.0, 7.0, 0.25], [-1.0, 1.0, 0.75]]
    source = torch.tensor([[*past, [0.0, 0.0, 0.125], [0.0, 0.0, 0.375]]])
    right = torch.tensor([[[11.0, 13.0], [17.0, 19.0]]])
    fed = [11.0, 13.0] if recursive else [0.0, 0.0]
    rows = torch.tensor(
        [
            [0.0, 0.0, 0.5, 0.0],
            [2.0, 3.0, 0.25, 1.0],
            [5.0, 7.0, 0.75, 1.0],
            [-1.0, 1.0, 0.125, 1.0],
            [*fed, 0.375, float(recursive)],
        ]
    )
    inputs = torch.cat([torch.zeros(1, 1, 2), right[:, :-1]], 1)
    with torch.no_grad():
        output = model(source, torch.ones(1, 5, dtype=torch.bool), inputs, need_weights=True)
        forecast, weights = loop(model, rows)
    torch.testing.assert_close(output.logits[0], forecast)
    torch.testing.assert_close(output.weights[0], weights)


@pytest.mark.parametrize("scope", ["history", "global", "local"])
def test_every_scope_covers_the_past(scope):
    resolved: Any = resolve_model(config(scope=node("scope", scope)))
    network = resolved.network
    assert (network.sources, network.bridge, network.plan.feed) == (("decoder",), "zeros", "now")
    assert resolved.summary()["schedule"].startswith("step by step")


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"scope": node("scope", "encoder_decoder")}, "model=history has no encoder"),
        ({"attention": node("attention", "none")}, "model=history needs attention, but attention=none is chosen"),
        ({"task": node("task", "g2p")}, "task=g2p outputs something else"),
        ({"task": node("task", "language_model")}, "model=seq2seq with recipe=attention_rnn"),
        ({"query": {"current_state": {}}}, "model.feed=now contradicts query=current_state"),
    ],
)
def test_an_invalid_configuration_is_refused(choices, message):
    with refused(f"...{message}..."):
        resolve_model(config(**choices))
