"""The scope ``history`` and the model ``history`` equal explicit loops."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx import registry
from attnx.models.resolve import DataSizes, resolve_model
from tests.conftest import node
from tests.refusal import refused

pytestmark = pytest.mark.usefixtures("float64")

LN2, LN3 = math.log(2), math.log(3)  # tanh(ln 2) = 3/5, tanh(ln 3) = 4/5
SOURCE = torch.tensor([[3, 5, 7], [11, 13, 0]])
SOURCE_MASK = SOURCE > 0
INPUTS = torch.tensor([[1, 5, 3, 8, 13], [1, 7, 2, 2, 11]])


def by_hand(model: Any, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The logits of the loop, and the weights (b, t, t): at step t, h_{t-1} queries the states h_0 .. h_{t-2}."""
    (layer,) = model.decoder.layers
    rows, steps = inputs.shape
    state, states = torch.zeros(rows, 13), []
    logits, weights = [], torch.zeros(rows, steps, steps)
    for t in range(steps):
        memory = states[: max(t - 1, 0)]
        scores = [(state * remembered).mean(-1) for remembered in memory]
        context = torch.zeros(rows, 13)
        for j, remembered in enumerate(memory):
            share = scores[j].exp() / sum(score.exp() for score in scores)
            weights[:, t, j] = share.detach()
            context = context + share[:, None] * remembered
        operands = torch.cat([model.embedding.weight[inputs[:, t]], context], -1)
        gate_inputs = operands @ layer.weight_ih_l0.T + layer.bias_ih_l0
        state = torch.tanh(gate_inputs + state @ layer.weight_hh_l0.T + layer.bias_hh_l0)
        states.append(state)
        logits.append(state @ model.output.weight.T + model.output.bias)
    return torch.stack(logits, 1), weights


@pytest.fixture
def looping(build_model):
    """A plain RNN; the mean of the products as score; the context joins the input."""
    return build_model(
        scorer=("scaled", {"scale": "dimension"}),
        scope="history",
        query=["previous_state"],
        model={"feed": "now", "bridge": "zeros"},
        decoder={"cell": "rnn"},
        readout={"inputs": ["state"], "tanh": False},
    )


def test_training_matches_the_explicit_loop(looping):
    """Logits, weights and gradients are those of the loop above."""
    logits, weights = by_hand(looping, INPUTS)
    output = looping(SOURCE, SOURCE_MASK, INPUTS, need_weights=True)
    torch.testing.assert_close(output.logits, logits)
    # The state of the last step was not there yet when it read.
    torch.testing.assert_close(output.weights, weights[..., :-1])
    both = [torch.autograd.grad(value.pow(2).sum(), list(looping.parameters())) for value in (output.logits, logits)]
    for actual, expected in zip(*both, strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("schedule", ["run_then_attend", "step_by_step"])
@pytest.mark.parametrize("include_self", [False, True])
def test_three_steps_by_hand(build_model, include_self, schedule):
    """States 3/5, 4/5, 3/5 of one unit, queried with the last; symbol k scores k times the context.

    Scores at step 1 are 12/25 and, with itself, 16/25; at step 2 9/25, 12/25 and, with itself, 9/25.
    """
    model = build_model(
        scorer="dot",
        scope=("history", {"include_self": include_self}),
        model={"embedding_dim": 1, "bridge": "zeros"},
        decoder={"cell": "rnn", "hidden_size": 1},
        readout={"inputs": ["context"], "tanh": False},
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embedding.weight[2:4, 0] = torch.tensor([LN2, LN3])
        model.decoder.layers[0].weight_ih_l0.fill_(1.0)
        model.output.weight[:, 0] = torch.arange(17.0)
    output = model(SOURCE[:1], SOURCE_MASK[:1], torch.tensor([[2, 3, 2]]), need_weights=True, schedule=schedule)
    a, b, c = math.exp(9 / 25), math.exp(12 / 25), math.exp(16 / 25)
    if include_self:
        weights = [[1, 0, 0], [b / (b + c), c / (b + c), 0], [a / (2 * a + b), b / (2 * a + b), a / (2 * a + b)]]
    else:
        weights = [[0, 0, 0], [1, 0, 0], [a / (a + b), b / (a + b), 0]]
    torch.testing.assert_close(output.weights[0], torch.tensor(weights))
    contexts = torch.tensor(weights) @ torch.tensor([3 / 5, 4 / 5, 3 / 5])
    torch.testing.assert_close(output.logits[0], contexts[:, None] * torch.arange(17.0))


@pytest.mark.parametrize("bridge", ["zeros", "learned"])
@pytest.mark.parametrize("feed", ["now", "next", "none"])
def test_a_history_model_works_without_a_source(build_model, feed, bridge):
    """Nothing of the source is read and no parameter of it exists; every parameter there is gets a gradient."""
    model = build_model(scope="history", query=["previous_state"], model={"feed": feed, "bridge": bridge})
    output = model(SOURCE, SOURCE_MASK, INPUTS)
    assert torch.equal(output.logits, model(SOURCE + 2, ~SOURCE_MASK, INPUTS).logits)
    output.logits.sum().backward()
    assert all(value.grad is not None for value in model.parameters())
    assert model.source_encoder is None


def test_a_history_model_works_with_an_encoder(build_model):
    """The decoder starts from it and reads its own states alone; the encoder learns by way of the start."""
    model = build_model(scope="history", model={"bridge": "last"})
    output = model(SOURCE, SOURCE_MASK, INPUTS, need_weights=True)
    assert output.weights.shape == (2, 5, 5)
    assert not torch.allclose(output.logits, model(SOURCE + 2, SOURCE_MASK, INPUTS).logits)
    output.logits.sum().backward()
    assert all(value.grad.abs().sum() > 0 for name, value in model.named_parameters() if "encoder" in name)


PAST, AHEAD = 3, 2


def small_history(**choices: Any) -> dict[str, Any]:
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
    selected = small_history()
    selected["task"]["forecast"] = "recursive" if recursive else "direct"
    model: Any = resolve_model(selected).build(DataSizes(source_features=3, target_features=2))
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
    resolved: Any = resolve_model(small_history(scope=node("scope", scope)))
    network = resolved.network
    assert (network.sources, network.bridge, network.plan.feed) == (("decoder",), "zeros", "now")
    assert resolved.summary()["schedule"].startswith("step by step")


@pytest.mark.usefixtures("new_parts_are_forgotten")
def test_a_scope_may_declare_what_others_have_as_options():
    """The queried state h_{t-1} is the last that is read at step t."""

    @registry.register("scope", "own_past")
    class OwnPast(torch.nn.Module):
        """All earlier states."""

        sources = ("decoder",)
        include_self = True

    network: Any = resolve_model(small_history(scope=node("scope", "own_past"))).network
    assert (network.sources, network.visible_state_offset) == (("decoder",), 0)


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
def test_an_invalid_history_model_is_refused(choices, message):
    with refused(f"...{message}..."):
        resolve_model(small_history(**choices))
