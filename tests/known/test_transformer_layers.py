"""Layers of a transformer that hold attention, a mixer or neither."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import torch

from attnx.config.compose import compose
from attnx.errors import UserError
from attnx.models.resolve import DataSizes, resolve_model
from attnx.models.transformer.layer import SequenceChunk

LANGUAGE_MODEL = ["task=language_model", "model=transformer", "model.form=decoder_only", "scorer=scaled"]
NO_SOURCE = torch.zeros(3, 0, dtype=torch.int64)


def build_model(*overrides: str) -> Any:
    config = compose([*LANGUAGE_MODEL[: 4 if "standard" in "".join(overrides) else 3], *overrides])
    return resolve_model(config).build(DataSizes(target_symbols=17)).eval()


def test_a_list_of_layers_is_repeated():
    overrides = ["model.layers=4", "model.mixer=[linear,standard]", "attention.heads=2", "model.hidden_size=16"]
    model = build_model(*overrides)
    assert [type(layer.mixer).__name__ for layer in model.decoder.layers] == ["Linear", "NoneType"] * 2
    inputs = torch.randint(4, 17, (3, 5))
    assert model(NO_SOURCE, NO_SOURCE > 0, inputs, need_weights=True).weights.shape == (3, 4, 5, 5)
    sites = resolve_model(compose([*LANGUAGE_MODEL, *overrides])).sites
    assert sites == tuple(f"self-attention, layer {layer}" for layer in (2, 2, 4, 4))


def test_a_model_of_mixers_alone_has_no_attention():
    config = compose([*LANGUAGE_MODEL[:3], "model.mixer={name: linear, heads: 2}", "model.hidden_size=16"])
    assert config["attention"] == {"name": "none"}
    assert not {"scorer", "scope", "normalizer", "query"} & set(config)
    resolved = resolve_model(config)
    assert resolved.sites == ()
    model: Any = resolved.build(DataSizes(target_symbols=17))
    assert {layer.mixer.heads for layer in model.decoder.layers} == {2}
    output = model(NO_SOURCE, NO_SOURCE > 0, torch.randint(4, 17, (3, 5)), need_weights=True)
    assert output.weights is None


def test_a_layer_may_be_a_feed_forward_map_alone():
    model = build_model("model.layers=2", "model.mixer=[linear,none]", "model.hidden_size=16")
    assert model.decoder.layers[1].self_attention is None
    state = model.init_state(NO_SOURCE, NO_SOURCE > 0)
    assert state.self_memories[1] is None
    inputs = torch.randint(4, 17, (3, 2))
    expected = model(NO_SOURCE, NO_SOURCE > 0, inputs).logits.log_softmax(-1)
    for step in range(2):
        predictions, state, _ = model.decode_step(inputs[:, step], state)
        torch.testing.assert_close(predictions, expected[:, step])


@torch.no_grad()
def test_without_a_feed_forward_map_a_layer_adds_what_it_reads():
    """A step reads itself alone, by maps that are identities: (3, 5), normalized (-1, 1), is added to it."""
    options = ["model.layers=1", "model.mixer=standard", "attention.heads=1", "model.hidden_size=2"]
    (layer,) = build_model(*options, "model.feedforward_size=0").decoder.layers
    assert {name.partition(".")[0] for name, _ in layer.named_parameters()} == {"self_attention", "self_residual"}
    for parameter in layer.self_attention.parameters():
        parameter.copy_(torch.eye(2))
    states, _, _ = layer(torch.tensor([[[3.0, 5.0]]]), None, None, SequenceChunk(torch.arange(1), None))
    torch.testing.assert_close(states, torch.tensor([[[2.0, 6.0]]]), rtol=1e-4, atol=1e-4)


CONTRADICTIONS = {
    "model.mixer=linaer": "unknown mixer 'linaer'; did you mean linear",
    "'model.mixer={name: linear, heads: 3}'": "linear with 3 heads needs a multiple of 3 units, but "
    "model.hidden_size=256",
    "model.mixer=retention model.hidden_size=12": "retention with 4 heads needs a multiple of 8 units",
    "'model.mixer={name: linear, hads: 3}'": "the mixer 'linear' has no option 'hads'; did you mean heads",
    "model.mixer=[linear,standard]": "model.mixer=[linear,standard] names 2 layers, which are repeated, but "
    "model.layers=3",
    "model.layers=2 model.mixer=[linear,none] model.feedforward_size=0": "a layer of none is a feed-forward map alone",
    "model.mixer=linear model.feedforward_size=0 model.gated=true": "model.gated=true has no effect beside "
    "model.feedforward_size=0",
    "'model.mixer={name: standard, heads: 2}'": "set attention.heads instead",
    "model.mixer=linear model.form=encoder_decoder task=g2p": "use model.form=decoder_only",
    "model.mixer=linear task=g2p": "use model.prefix=causal, or a task without a source",
    "model.mixer=linear scorer=dot": "scorer=dot has no effect beside model.mixer=linear",
    "model.mixer=linear attention.heads=2": "attention.heads=2 has no effect beside model.mixer=linear",
    "model.mixer=linear scope=history": "scope=history has no effect beside model.mixer=linear; leave it out, or let a "
    "layer attend: model.mixer=[linear,standard]",
    "model.mixer=linear model.self_bias=alibi": "model.self_bias=alibi has no effect beside model.mixer=linear",
    "model.mixer=linear model.position_encoding=rotary": "no layer attends with model.mixer=linear",
}


@pytest.mark.parametrize("written", CONTRADICTIONS)
def test_what_no_layer_can_be_is_refused_in_a_line(written):
    overrides = {word.partition("=")[0]: word for word in (*LANGUAGE_MODEL[:3], *shlex.split(written))}
    with pytest.raises(UserError) as refusal:
        compose([*overrides.values()])
    assert CONTRADICTIONS[written] in str(refusal.value)
    assert "\n" not in str(refusal.value)
