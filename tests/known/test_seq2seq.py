"""The sequence-to-sequence model: three tiny ones by hand, causality, and refused compositions."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx.errors import UserError
from attnx.models.resolve import resolve_model
from attnx.nn.recurrent import top_hidden
from tests.refusal import refused

pytestmark = pytest.mark.usefixtures("float64")
BuildModel = Callable[..., Any]

LN2, LN3 = math.log(2), math.log(3)  # tanh(ln 2) = 3/5, tanh(ln 3) = 4/5
# Source symbols 5 and 7 stand for 0 and ln 3, target symbols 2 and 3 for 0 and 1; all else is 0.
SOURCE, INPUTS = torch.tensor([[5, 7]]), torch.tensor([[3, 2]])
SOURCE_MASK = torch.ones(1, 2, dtype=torch.bool)


def fill(parameter: Tensor, values: Any) -> None:
    with torch.no_grad():
        parameter.copy_(torch.as_tensor(values).reshape(parameter.shape))


def tiny(build_model: BuildModel, ih: list[float], hh: float, **choices: Any) -> Any:
    """One number per symbol, per state and per memory position; symbol k scores k times the first unit read out."""
    model = build_model(
        **{
            "scorer": "dot",
            "query": ["token"],
            "decoder": {"cell": "rnn", "hidden_size": 1},
            "readout": {"inputs": ["state"], "tanh": False},
            **choices,
            "model": {"embedding_dim": 1, "keys_from": "inputs", "bridge": "zeros", **choices.get("model", {})},
        }
    )
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    fill(model.source_encoder.embedding.weight[7], LN3)
    fill(model.embedding.weight[3], 1.0)
    (layer,) = model.decoder.layers
    fill(layer.weight_ih_l0, ih)
    fill(layer.weight_hh_l0, hh)
    fill(model.output.weight[:, 0], torch.arange(17.0))
    return model


def assert_output(model: Any, weights: list[list[float]], read_out: list[float]) -> None:
    output = model(SOURCE, SOURCE_MASK, INPUTS, need_weights=True)
    torch.testing.assert_close(output.weights[0], torch.tensor(weights))
    torch.testing.assert_close(output.logits[0], torch.tensor(read_out)[:, None] * torch.arange(17.0))


def test_feed_now_by_hand(build_model):
    """The token is the query, and the context enters the cell at once.

    Step 0: scores (0, ln 3), weights (1/4, 3/4), context 3/4 ln 3, h = tanh(4/3 * 3/4 ln 3) = 4/5.
    Step 1: scores (0, 0), weights (1/2, 1/2), context 1/2 ln 3, h = tanh(2/3 ln 3 + (ln 2 - 2/3 ln 3)) = 3/5.
    """
    model = tiny(build_model, ih=[0.0, 4 / 3], hh=(LN2 - 2 / 3 * LN3) / (4 / 5), model={"feed": "now"})
    assert_output(model, [[1 / 4, 3 / 4], [1 / 2, 1 / 2]], [4 / 5, 3 / 5])


def test_feed_next_by_hand(build_model):
    """What is read out, (h, c), enters the cell one step later.

    Step 0: nothing is fed, h = tanh(0) = 0, context 3/4 ln 3. Step 1: h = tanh(4/3 * 3/4 ln 3) = 4/5.
    """
    readout = {"inputs": ["state", "context"], "tanh": False}
    model = tiny(build_model, ih=[0.0, 0.0, 4 / 3], hh=0.0, model={"feed": "next"}, readout=readout)
    assert_output(model, [[1 / 4, 3 / 4], [1 / 2, 1 / 2]], [0.0, 4 / 5])


def test_feed_none_by_hand(build_model):
    """The state is the query, and only the context is read out.

    Step 0: h = tanh(ln 2) = 3/5, scores (0, 3/5 ln 3), so weights 1 : 3^(3/5).
    Step 1: h = tanh(0 + 0) = 0, weights (1/2, 1/2), context 1/2 ln 3.
    """
    readout = {"inputs": ["context"], "tanh": False}
    model = tiny(build_model, ih=[LN2], hh=0.0, query=["current_state"], readout=readout)
    second = 3 ** (3 / 5) / (1 + 3 ** (3 / 5))
    assert_output(model, [[1 - second, second], [1 / 2, 1 / 2]], [second * LN3, LN3 / 2])


def test_no_attention_by_hand(build_model):
    """The baseline's context is the encoder's last state: tanh(ln 3) = 4/5, at the end of each row, at every step."""
    model = tiny(
        build_model,
        ih=[0.0, 5 / 4 * LN2],
        hh=0.0,
        attention="none",
        model={"keys_from": "states"},
        encoder={"cell": "rnn", "hidden_size": 1, "bidirectional": False},
    )
    fill(model.source_encoder.encoder.recurrent.layers[0].weight_ih_l0, 1.0)
    sources = torch.tensor([[5, 7, 5], [5, 7, 5]])
    source_mask = torch.tensor([[True, True, False], [True, True, True]])
    logits = model(sources, source_mask, INPUTS.expand(2, 2)).logits
    # Row 0 ends on ln 3: c = 4/5, h = tanh(ln 2) = 3/5. Row 1 ends on 0: c = 0, h = 0.
    torch.testing.assert_close(logits[0], torch.tensor([[3 / 5], [3 / 5]]) * torch.arange(17.0))
    assert (logits[1] == 0).all()


def test_log_probabilities(build_model):
    """A step gives the logarithm of the softmax of its logits: 17 symbols that are all alike get 1/17 each."""
    model = tiny(build_model, ih=[0.0, 0.0], hh=0.0, model={"feed": "now"})
    result, state, _ = model.decode_step(torch.tensor([3]), model.init_state(SOURCE, SOURCE_MASK))
    torch.testing.assert_close(result, torch.full((1, 17), -math.log(17)))
    assert state.step.tolist() == [1]


@pytest.mark.parametrize(
    ("feed", "changed"), [("now", [True, True, True]), ("next", [False, True, True]), ("none", [False] * 3)]
)
def test_when_the_context_reaches_the_recurrence(build_model, feed, changed):
    """Two sources, one start: at once, one step later, or never do the states part."""
    model = build_model(query=["token"], model={"feed": feed, "bridge": "zeros"})
    source_mask = torch.ones(1, 5, dtype=torch.bool)
    first, two = (
        model.init_state(source, source_mask)
        for source in (torch.tensor([[3, 5, 7, 11, 13]]), torch.tensor([[2, 19, 17, 1, 8]]))
    )
    for step, differ in enumerate(changed):
        token = model.embedding(torch.tensor([step + 2]))
        (first, _), (two, _) = model.forward_step(token, first), model.forward_step(token, two)
        assert torch.equal(top_hidden(first.rnn_state), top_hidden(two.rnn_state)) is not differ


def test_the_first_step_sees_the_bridge_and_no_context(build_model):
    """At step 0 the previous state is the bridge's, and the last context is zeros."""
    model = build_model(query=["previous_state", "last_context"], scorer="multiplicative")
    source = torch.tensor([[3, 5, 7], [11, 13, 0]])
    start = model.init_state(source, source > 0)
    _, _, read = model.decode_step(torch.tensor([1, 1]), start, need_weights=True)
    queries = torch.cat([top_hidden(start.rnn_state), torch.zeros(2, model.source_encoder.values_size)], -1)[:, None]
    torch.testing.assert_close(read.weights, model.attention(queries, start.memory, need_weights=True).weights)


@pytest.mark.parametrize("place", ["states", "inputs", "layer:0", "layer:1"])
def test_the_state_remembers_what_the_plan_needs(build_model, place):
    """Keys and values come from their configured source; absent positions are zeros."""
    model = build_model(scorer="dot", encoder={"layers": 3}, model={"keys_from": place, "values_from": "inputs"}).eval()
    source = torch.tensor([[3, 5, 7], [11, 13, 0]])
    source_mask = source > 0
    inputs = model.source_encoder.embedding(source)
    layers = model.source_encoder.encoder(inputs, source_mask).layers if model.source_encoder.encoder else []
    places = {"states": 2, "layer:0": 0, "layer:1": 1}
    expected = inputs if place == "inputs" else layers[places[place]]
    memory = model.init_state(source, source_mask).memory
    torch.testing.assert_close(memory.keys, expected * source_mask[..., None])
    torch.testing.assert_close(memory.values, inputs * source_mask[..., None])
    assert (model.source_encoder.encoder is None) == (place == "inputs")


def test_a_tied_output_layer_is_the_embedding(build_model):
    model = build_model(model={"tie_embeddings": True})
    assert model.output.weight is model.embedding.weight
    assert model.output.bias is None
    assert model.readout.size == 7


def test_padding_embeds_to_zeros_after_training(build_model):
    """Symbol 0 of either side is no symbol: its vector is zeros, and reading it trains nothing."""
    model = build_model()
    source, inputs = torch.tensor([[3, 5, 0]]), torch.tensor([[1, 5, 0]])
    model(source, source > 0, inputs).logits.pow(2).sum().backward()
    for embedding in (model.source_encoder.embedding, model.embedding):
        assert (embedding.weight[0] == 0).all()
        assert (embedding.weight.grad[0] == 0).all()
        assert (embedding.weight.grad[5] != 0).any()


@pytest.mark.parametrize("memory", ["states", "inputs"])
def test_sources_may_be_vectors(build_model, memory):
    """Of 5 features a step, mapped to an embedding's width; what stands in the padding changes nothing."""
    model = build_model(features=5, model={"keys_from": memory}).eval()
    source, source_mask, inputs = (
        torch.randn(2, 3, 5),
        torch.tensor([[1, 1, 1], [1, 1, 0]]) > 0,
        torch.tensor([[1, 5], [1, 7]]),
    )
    logits = model(source, source_mask, inputs).logits
    assert torch.equal(logits, model(source + 97.0 * ~source_mask[..., None], source_mask, inputs).logits)
    assert not torch.allclose(logits, model(source + 1.0, source_mask, inputs).logits)
    if memory == "inputs":
        expected = source @ model.source_encoder.embedding.weight.T + model.source_encoder.embedding.bias
        torch.testing.assert_close(
            model.init_state(source, source_mask).memory.values, expected * source_mask[..., None]
        )


def test_dropout_is_for_training(build_model):
    model = build_model(
        model={"dropout": 0.5}, decoder={"layers": 2, "dropout": 0.5}, attention=("standard", {"dropout": 0.5})
    )
    source, inputs = torch.tensor([[3, 5, 7]]), torch.tensor([[1, 5, 11]])
    for is_equal in (False, True):
        assert torch.equal(*(model(source, source > 0, inputs).logits for _ in range(2))) is is_equal
        model.eval()


def test_an_empty_source_row_is_allowed(build_model):
    """An empty source reads zeros; its outputs and every gradient are finite, and other rows do not notice."""
    model = build_model(scorer="cosine", model={"feed": "next"})
    source, inputs = torch.tensor([[3, 5, 7], [0, 0, 0]]), torch.tensor([[1, 5], [1, 7]])
    output = model(source, source > 0, inputs, need_weights=True)
    output.logits.pow(2).sum().backward()
    assert output.logits.isfinite().all()
    assert (output.weights[1] == 0).all()
    assert all(value.grad.isfinite().all() for value in model.parameters() if value.grad is not None)
    torch.testing.assert_close(model(source[:1], source[:1] > 0, inputs[:1]).logits, output.logits[:1])


ITSELF = "scope.include_self=true"
UNREAD = "is the encoder's, but scope.sources=[decoder] does not read it"


@pytest.mark.parametrize(
    ("model", "choices", "message"),
    [
        (
            {"keys_from": "inputs", "bridge": "last"},
            {},
            "model.bridge=last needs an encoder, and model.keys_from=inputs has none; use zeros or learned",
        ),
        ({"keys_from": "layer:1"}, {}, "model.keys_from=layer:1: the encoder has 1 layer(s), counted from layer:0"),
        ({"values_from": "layer:x"}, {}, "model.values_from=layer:x: expected states, inputs or layer:N"),
        ({"keys_from": "state"}, {}, "model.keys_from=state: expected states, inputs, one_hot, sinusoidal or layer:N"),
        (
            {"tie_embeddings": True},
            {"readout": {"hidden_size": 5}},
            "model.tie_embeddings=true makes the output layer the embedding, of width 7, but "
            "readout.hidden_size=5; leave",
        ),
        ({}, {"query": []}, "the query is empty: choose one or more of current_state, language_tag, last_context, "),
        ({"keys_from": "inputs"}, {"scope": "history"}, f"model.keys_from=inputs {UNREAD}"),
        ({"values_from": "layer:0"}, {"scope": "history"}, f"model.values_from=layer:0 {UNREAD}"),
        (
            {},
            {"scope": ("global", {"sources": ["decoder"] * 2})},
            "scope.sources=[decoder,decoder]: name each source once",
        ),
        ({}, {"scope": ("global", {"include_self": True})}, f"{ITSELF} needs the decoder's states in scope.sources"),
        (
            {},
            {"scope": ("history", {"include_self": True}), "query": ["token", "last_context"]},
            f"{ITSELF} needs a state in the query, current_state or previous_state",
        ),
        ({"keys_from": "inputs", "tag_inputs": ["encoder"]}, {}, "model.tag_inputs=[encoder] needs an encoder"),
        (
            {"bridge": "zeros", "tag_inputs": ["encoder"]},
            {"scope": "history"},
            "model.tag_inputs=[encoder] needs an encoder",
        ),
    ],
)
def test_contradictory_compositions_are_refused(compose_config, model, choices, message):
    with refused(f"{message}..."):
        resolve_model(compose_config(model=model, **choices))


@pytest.mark.parametrize(
    ("model", "choices", "encoder", "bridge"),
    [
        ({}, {}, 3, "last"),
        ({"keys_from": "inputs"}, {}, 0, "learned"),
        ({"keys_from": "inputs", "bridge": "zeros"}, {}, 0, "zeros"),
        ({"keys_from": "inputs", "values_from": "states"}, {}, 3, "last"),
        ({"keys_from": "states", "values_from": "inputs"}, {}, 3, "last"),
        ({"keys_from": "layer:0"}, {}, 2, "last"),  # the decoder's second layer starts from the encoder's
        ({"keys_from": "layer:0", "bridge": "zeros"}, {}, 1, "zeros"),
        ({"keys_from": "layer:0", "values_from": "layer:1", "bridge": "learned"}, {}, 2, "learned"),
        ({"keys_from": "layer:1", "values_from": "layer:2", "bridge": "zeros"}, {}, 3, "zeros"),
        ({}, {"attention": "none"}, 3, "last"),
        ({"keys_from": "one_hot"}, {}, 3, "last"),  # positions are keys; values are the states
        ({"keys_from": "sinusoidal", "values_from": "inputs"}, {}, 0, "learned"),
        ({}, {"scope": "encoder_decoder"}, 3, "last"),
        ({}, {"scope": "history"}, 2, "last"),  # nothing is read but what the decoder's two layers start from
        ({"bridge": "zeros"}, {"scope": "history"}, 0, "zeros"),
        ({"bridge": "learned", "keys_from": "one_hot"}, {"scope": "history"}, 0, "learned"),
    ],
)
def test_derived_sizes_follow_from_the_memory(compose_config, model, choices, encoder, bridge):
    """How many of the encoder's 3 layers are built, under a decoder of 2, and where the decoder starts."""
    result = resolve_model(compose_config(model=model, **choices, encoder={"layers": 3}, decoder={"layers": 2}))
    assert (result.encoder_layers, result.bridge) == (encoder, bridge)


def test_unequal_widths_are_projected_or_refused(build_model):
    """A query of 13 + 7 + 42 over a memory of 42."""
    choices = {"query": ["current_state", "token", "last_context"], "encoder": {"hidden_size": 21}}
    with pytest.raises(UserError, match="the query has 62 and the memory 42"):
        build_model(scorer="dot", **choices, attention=("standard", {"projection": "never"}))
    project = build_model(scorer="dot", **choices).attention.project
    assert (project.in_features, project.out_features) == (62, 42)


def test_equal_widths_need_no_projection(build_model):
    """A token of 7 over embeddings of 7; a state of 22 over states of 2 * 11."""
    never = ("standard", {"projection": "never"})
    for choices in (
        {"query": ["token"], "model": {"keys_from": "inputs"}},
        {"query": ["current_state"], "decoder": {"hidden_size": 22}},
    ):
        assert not list(build_model(scorer="dot", attention=never, **choices).attention.project.parameters())
