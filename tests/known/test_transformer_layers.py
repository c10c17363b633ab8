"""Layers of a transformer that hold attention, a mixer or neither."""

from typing import Any

import torch

from attnx.config.compose import compose
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
