"""Mixers by hand, and the layers of a transformer that hold them."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx import registry
from attnx.attention.factory import build_multi_head
from attnx.attention.memory import hide_future
from attnx.attention.options import AttentionOptions
from attnx.config.compose import compose
from attnx.errors import UserError
from attnx.models.resolve import DataSizes, resolve_model

LANGUAGE_MODEL = ["task=language_model", "model=transformer", "model.form=decoder_only", "scorer=scaled"]
NO_SOURCE = torch.zeros(3, 0, dtype=torch.int64)


def build_identity(name: str, **options: Any) -> Any:
    """A mixer whose maps are the identity, without biases."""
    mixer = registry.build("mixer", (name, options), hidden_size=1)
    with torch.no_grad():
        for module in mixer.modules():
            if isinstance(module, nn.Linear):
                nn.init.eye_(module.weight)
    return mixer


def build_model(*overrides: str) -> Any:
    config = compose([*LANGUAGE_MODEL[: 4 if "standard" in "".join(overrides) else 3], *overrides])
    return resolve_model(config).build(DataSizes(target_symbols=17)).eval()


def test_linear_by_hand() -> None:
    """Of 1 and 2 the features are 2 and 3; the second position reads (3 * 2 * 1 + 3 * 3 * 2) / (3 * 2 + 3 * 3)."""
    outputs, state = build_identity("linear", heads=1)(torch.tensor([[[1.0], [2.0]]]))
    torch.testing.assert_close(outputs, torch.tensor([[[1.0], [24 / 15]]]))
    assert (state.products.item(), state.keys.item()) == (2 * 1 + 3 * 2, 2 + 3)


class FeatureProduct(nn.Module):
    """The inner product of positive features."""

    requires_equal_dims = True

    def project_keys(self, memory: Tensor) -> Tensor:
        return F.elu(memory) + 1

    def project_queries(self, queries: Tensor) -> Tensor:
        return F.elu(queries) + 1

    def score(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.mT


class Share(nn.Module):
    """Scores divided by their sum."""

    is_distribution = True

    def forward(self, scores: Tensor, allowed_mask: Tensor) -> Tensor:
        scores = scores.masked_fill(~allowed_mask, 0.0)
        return scores / scores.sum(-1, keepdim=True).clamp(min=1e-30)


@pytest.mark.usefixtures("float64")
def test_linear_is_attention_with_a_feature_map_and_a_sum() -> None:
    mixer = registry.build("mixer", ("linear", {"heads": 2, "chunk": 3}), hidden_size=14)
    attention = build_multi_head((FeatureProduct(), "global", Share()), 14, 14, 14, 2, AttentionOptions())
    attention.load_state_dict(mixer.state_dict())
    states, mask = torch.randn(3, 11, 14), torch.arange(11) < torch.tensor([11, 5, 1])[:, None]
    memory = hide_future(attention.make_memory(states, mask), torch.arange(11) + 1)
    expected = attention(states, memory).context
    torch.testing.assert_close(mixer(states, mask)[0][mask], expected[mask])


def test_a_list_of_layers_is_repeated() -> None:
    overrides = ["model.layers=4", "model.mixer=[linear,standard]", "attention.heads=2", "model.hidden_size=16"]
    model = build_model(*overrides)
    assert [type(layer.mixer).__name__ for layer in model.decoder.layers] == ["Linear", "NoneType"] * 2
    inputs = torch.randint(4, 17, (3, 5))
    assert model(NO_SOURCE, NO_SOURCE > 0, inputs, need_weights=True).weights.shape == (3, 4, 5, 5)
    sites = resolve_model(compose([*LANGUAGE_MODEL, *overrides])).sites
    assert sites == tuple(f"self-attention, layer {layer}" for layer in (2, 2, 4, 4))


def test_a_model_of_mixers_alone_has_no_attention() -> None:
    config = compose([*LANGUAGE_MODEL[:3], "model.mixer={name: linear, heads: 2}", "model.hidden_size=16"])
    assert config["attention"] == {"name": "none"}
    assert not {"scorer", "scope", "normalizer", "query"} & set(config)
    resolved = resolve_model(config)
    assert resolved.sites == ()
    model: Any = resolved.build(DataSizes(target_symbols=17))
    assert {layer.mixer.heads for layer in model.decoder.layers} == {2}
    output = model(NO_SOURCE, NO_SOURCE > 0, torch.randint(4, 17, (3, 5)), need_weights=True)
    assert output.weights is None


def test_a_layer_may_be_a_feed_forward_map_alone() -> None:
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
def test_a_state_stays_as_large_as_it_is() -> None:
    model = build_model("model.layers=2", "model.mixer=linear", "model.hidden_size=16")
    state = model.init_state(NO_SOURCE, NO_SOURCE > 0)
    shapes = [part.shape for layer in state.self_memories for part in layer]
    for _ in range(5):
        _, state, _ = model.decode_step(torch.tensor([5, 7, 11]), state)
    assert [part.shape for layer in state.self_memories for part in layer] == shapes


CONTRADICTIONS = {
    "model.mixer=linaer": "unknown mixer 'linaer'; did you mean linear",
    "'model.mixer={name: linear, heads: 3}'": "heads=3 of linear do not divide model.hidden_size=256",
    "'model.mixer={name: linear, hads: 3}'": "the mixer 'linear' has no option 'hads'; did you mean heads",
    "model.mixer=[linear,standard]": "model.mixer=[linear,standard] names 2 layers, which are repeated, but "
    "model.layers=3",
    "'model.mixer={name: standard, heads: 2}'": "set attention.heads instead",
    "model.mixer=linear model.form=encoder_decoder task=g2p": "use model.form=decoder_only",
    "model.mixer=linear task=g2p": "use a task without a source",
    "model.mixer=linear scorer=dot": "scorer=dot has no effect beside model.mixer=linear",
    "model.mixer=linear attention.heads=2": "attention.heads=2 has no effect beside model.mixer=linear",
    "model.mixer=linear scope=history": "scope=history has no effect beside model.mixer=linear; leave it out, or let a "
    "layer attend: model.mixer=[linear,standard]",
    "model.mixer=linear model.self_bias=alibi": "model.self_bias=alibi has no effect beside model.mixer=linear",
    "model.mixer=linear model.position_encoding=rotary": "no layer attends with model.mixer=linear",
}


@pytest.mark.parametrize("written", CONTRADICTIONS)
def test_what_no_layer_can_be_is_refused_in_a_line(written: str) -> None:
    overrides = {word.partition("=")[0]: word for word in (*LANGUAGE_MODEL[:3], *shlex.split(written))}
    with pytest.raises(UserError) as refusal:
        compose([*overrides.values()])
    assert CONTRADICTIONS[written] in str(refusal.value)
    assert "\n" not in str(refusal.value)
