"""Transformers by hand: Vaswani et al. 2017, sections 3.1 to 3.5, and Su et al. 2021, equation 34."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnx.config.compose import compose
from attnx.data.vocabulary import BOS
from attnx.errors import UserError
from attnx.models.resolve import DataSizes, resolve_model
from attnx.nn.position_encoding import PositionEncoding
from attnx.nn.sublayers import FeedForward, Residual
from attnx.ops import apply_rope, rope_cos_sin

RECIPE = [
    "recipe=transformer",
    "attention.heads=2",
    "model.hidden_size=4",
    "model.feedforward_size=4",
    "model.layers=1",
]
SOURCE = torch.tensor([[5, 7, 5], [7, 0, 0]])
INPUTS = torch.tensor([[BOS, 5, 6], [BOS, 5, 6]])


def build_model(*overrides: str) -> Any:
    return resolve_model(compose(overrides)).build(DataSizes(source_symbols=11, target_symbols=7)).eval()


@torch.no_grad()
def plain(model: Any) -> Any:
    """Every map of attention and every feed-forward map is the identity, without biases."""
    for module in model.modules():
        if isinstance(module, nn.Linear) and module is not model.output:
            nn.init.eye_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model


def normalize(*units: float) -> list[float]:
    """Their mean taken off, then divided by the root of what is left of their squares on average."""
    mean = sum(units) / len(units)
    spread = math.sqrt(sum((unit - mean) ** 2 for unit in units) / len(units))
    return [(unit - mean) / spread for unit in units]


def place_embedding(model: Any, embedding: nn.Embedding, symbol: int, start: int, expected: list[float]) -> None:
    """Embed a symbol so that, times 2 = sqrt(4) and with the position added, it is what is wanted."""
    position = torch.tensor([math.sin(start), math.sin(start / 100), math.cos(start), math.cos(start / 100)])
    with torch.no_grad():
        embedding.weight[symbol] = (torch.tensor(expected) - position) / 2


def test_the_recipe_by_hand():
    """The encoder passes m = (1, -1, 1, -1) and n = (1, -1, -1, 1) on; the decoder queries with m.

    Of two units each, the first head scores both 2 / sqrt(2); the second scores m 2 / sqrt(2) and n -2 / sqrt(2).
    """
    model = plain(build_model(*RECIPE))
    assert (len(model.encoder.layers), len(model.decoder.layers)) == (1, 1)
    assert model.encoder.layers[0].self_attention.num_heads == 2
    first, second = [1.0, -1, 1, -1], [1.0, -1, -1, 1]
    place_embedding(model, model.source_embedding, 5, 0, first)
    place_embedding(model, model.source_embedding, 7, 1, second)
    place_embedding(model, model.embedding, BOS, 0, first)
    encoder, decoder = model.encoder.layers[0], model.decoder.layers[0]
    with torch.no_grad():
        for silent in (encoder.self_attention.out, encoder.feed_forward.down):  # what it reads changes nothing
            silent.weight.zero_()
        model.output.weight.copy_(torch.eye(7, 4))
        model.output.bias.zero_()
        output = model(SOURCE[:1, :2], SOURCE[:1, :2] > 0, INPUTS[:1, :1], need_weights=True)
    share = 1 / (1 + math.exp(-2 * math.sqrt(2)))  # 0.944
    expected = torch.tensor([[[[0.5, 0.5]], [[share, 1 - share]]]])
    torch.testing.assert_close(output.weights, expected, rtol=1e-4, atol=1e-4)
    assert decoder.self_residual.is_pre_norm is False
    # Alone, it reads itself: 2 m, normalized m. Of the source (1, -1) by the first head, (s, -s) by the second.
    second_head = share - (1 - share)
    read = normalize(2, -2, 1 + second_head, -1 - second_head)
    forward = [max(unit, 0.0) for unit in read]
    made = normalize(*(unit + extra for unit, extra in zip(read, forward, strict=True)))
    torch.testing.assert_close(output.logits[0, 0], torch.tensor([*made, 0, 0, 0]), rtol=1e-4, atol=1e-4)


def uniform_weights(*overrides: str) -> Tensor:
    """The weights of a model that scores everything alike, so that they count what may be read; those of one head."""
    model = build_model(
        "model=transformer", "scorer=dot", "model.hidden_size=4", "model.layers=1", "attention.heads=2", *overrides
    )
    with torch.no_grad():
        for layer in model.decoder.layers:
            for heads in (layer.self_attention, layer.cross_attention):
                if heads is not None:
                    heads.query.weight.zero_()
        weights: Tensor = model(SOURCE, SOURCE > 0, INPUTS, need_weights=True).weights
    torch.testing.assert_close(weights[:, 0], weights[:, 1])
    return weights[:, 0]


def test_cross_attention_reads_present_positions():
    torch.testing.assert_close(uniform_weights()[:, 2], torch.tensor([[1 / 3, 1 / 3, 1 / 3], [1, 0, 0]]))


@pytest.mark.parametrize("scope", ["global", "history", "encoder_decoder"])
def test_a_decoder_only_model_reads_source_and_output(scope):
    """The sources have 3 symbols and 1; step t is the stream's position 3 + t or 1 + t and reads itself, too."""
    weights = uniform_weights("model.form=decoder_only", f"scope={scope}")
    expected = [
        [[1 / 4] * 3 + [1 / 4, 0, 0], [1 / 5] * 3 + [1 / 5, 1 / 5, 0], [1 / 6] * 6],
        [[1 / 2, 0, 0, 1 / 2, 0, 0], [1 / 3, 0, 0, 1 / 3, 1 / 3, 0], [1 / 4, 0, 0, 1 / 4, 1 / 4, 1 / 4]],
    ]
    torch.testing.assert_close(weights, torch.tensor(expected))


def test_a_causal_prefix_reads_no_later_position():
    """A source of 3 symbols: each reads itself and those before it, of which the second layer's keys are made."""
    model = build_model("recipe=llama", "attention.heads=1", "model.hidden_size=4", "model.layers=1")
    assert not model.is_bidirectional
    model = build_model(
        "model=transformer", "scorer=dot", "model.hidden_size=4", "model.form=decoder_only", "model.prefix=causal"
    )
    changed = SOURCE.index_fill(1, torch.tensor([2]), 9)
    first, second = (model.init_state(source, source > 0).self_memories[1].keys[0] for source in (SOURCE, changed))
    torch.testing.assert_close(first[:, :2], second[:, :2])
    assert not torch.allclose(first[:, 2], second[:, 2])


def test_a_window_applies_to_source_and_decoder_states():
    """Window 1: of the source the positions next to step t, or to its end; of its own the step before and itself."""
    weights = uniform_weights("model.form=decoder_only", "scope=local", "scope.window=1")
    expected = [
        [[1 / 3, 1 / 3, 0, 1 / 3, 0, 0], [1 / 5] * 3 + [1 / 5, 1 / 5, 0], [0, 1 / 4, 1 / 4, 0, 1 / 4, 1 / 4]],
        [[1 / 2, 0, 0, 1 / 2, 0, 0], [1 / 3, 0, 0, 1 / 3, 1 / 3, 0], [1 / 3, 0, 0, 0, 1 / 3, 1 / 3]],
    ]
    torch.testing.assert_close(weights, torch.tensor(expected))


def test_weights_of_every_head_and_layer_are_returned():
    overrides = [*RECIPE[:-1], "model.layers=3"]
    model = build_model(*overrides)
    assert model(SOURCE, SOURCE > 0, INPUTS, need_weights=True).weights.shape == (2, 6, 3, 3)
    assert resolve_model(compose(overrides)).sites == tuple(
        f"cross-attention, layer {layer}" for layer in (1, 1, 2, 2, 3, 3)
    )
    assert model.sources == ("encoder",)


def test_feed_forward_by_hand():
    """relu(3, -5) = (3, 0); doubled by the second map, with 7 added."""
    layer = FeedForward(2, 2, "relu")
    with torch.no_grad():
        nn.init.eye_(layer.up.weight)
        layer.down.weight.copy_(2 * torch.eye(2))
        layer.up.bias.zero_()
        layer.down.bias.fill_(7)
    assert layer(torch.tensor([3.0, -5.0])).tolist() == [13.0, 7.0]


def test_a_gated_feed_forward_layer_by_hand():
    """The gate relu(3, -5) = (3, 0) times what is twice the input, (6, -10), with no bias: (18, 0), tripled below."""
    layer = FeedForward(2, 2, "relu", is_gated=True, has_bias=False)
    assert len(list(layer.parameters())) == 3
    with torch.no_grad():
        for linear, factor in ((layer.gate, 1), (layer.up, 2), (layer.down, 3)):
            linear.weight.copy_(factor * torch.eye(2))
    assert layer(torch.tensor([3.0, -5.0])).tolist() == [54.0, 0.0]


def test_a_gate_takes_as_many_weights_as_no_gate():
    """Three maps of 8/3 times the width, two of four times the width."""
    counts = []
    for gated in ("true", "false"):
        layer = build_model(*RECIPE[:1], "model.hidden_size=24", f"model.gated={gated}", "model.linear_bias=false")
        feed_forward = layer.decoder.layers[0].feed_forward
        counts.append(sum(parameter.numel() for parameter in feed_forward.parameters()))
        assert layer.output.bias is None
    assert counts == [3 * 24 * 64, 2 * 24 * 96]


def test_the_root_of_the_mean_square_by_hand():
    """Of (1, 7) it is 5; the mean stays in, and there is no bias."""
    around = Residual(2, "pre", dropout=0.0, norm_type="rms")
    assert [name for name, _ in around.named_parameters()] == ["norm.weight"]
    torch.testing.assert_close(around.pre(torch.tensor([1.0, 7.0])), torch.tensor([0.2, 1.4]), rtol=1e-5, atol=1e-5)


def test_norm_before_and_after():
    """(1, 5): normalized (-1, 1). Twice what is given is added: before 2 (-1, 1), after 2 (1, 5), normalized."""
    states = torch.tensor([1.0, 5.0])
    for norm, value, expected in (("pre", [-1.0, 1.0], [-1.0, 7.0]), ("post", [1.0, 5.0], [-1.0, 1.0])):
        around = Residual(2, norm, dropout=0.0)
        torch.testing.assert_close(around.pre(states), torch.tensor(value), rtol=1e-5, atol=1e-5)
        made = around.post(states, 2 * around.pre(states))
        torch.testing.assert_close(made, torch.tensor(expected), rtol=1e-5, atol=1e-5)


def test_a_rotation_by_hand():
    """Of width 4, units 0 and 2 turn by the position, units 1 and 3 by a hundredth of it."""
    by = rope_cos_sin(torch.tensor([3]), 4)
    actual = apply_rope(torch.tensor([[1.0, 0.0, 0.0, 2.0]]), by)
    expected = [[math.cos(3), -2 * math.sin(0.03), math.sin(3), 2 * math.cos(0.03)]]
    torch.testing.assert_close(actual, torch.tensor(expected))


def test_the_base_of_a_rotation_by_hand():
    """Of width 4 the second pair turns by position / sqrt(base)."""
    cosine, sine = PositionEncoding(8, "rotary", 5, 4, rotary_base=400.0).rotary(torch.tensor([[3]]))
    torch.testing.assert_close(cosine, torch.tensor([[[math.cos(3), math.cos(3 / 20)]]]))
    torch.testing.assert_close(sine, torch.tensor([[[math.sin(3), math.sin(3 / 20)]]]))


def test_learned_positions_are_limited():
    """Of three, those behind are as the last."""
    places = PositionEncoding(5, "learned", 3, 5)
    torch.testing.assert_close(places.additive(torch.tensor([[0, 2, 97]])), places.learned[[0, 2, 2]][None])
    assert places.rotary(torch.tensor([[0]])) is None


def test_an_odd_size_cannot_be_rotated():
    with pytest.raises(UserError, match="position_encoding=rotary needs an even size per head, not 3"):
        PositionEncoding(6, "rotary", 5, 3)


def test_unused_options_are_not_in_the_configuration():
    assert not {"encoder", "decoder", "readout"} & compose(["model=transformer"]).keys()


@pytest.mark.parametrize(
    "overrides",
    [
        ["model.self_scorer=cosine"],
        ["+model.self_scorer=cosine"],
        ["scorer@model.self_scorer=cosine"],
        ["+scorer@model.self_scorer=cosine"],
    ],
    ids=" ".join,
)
def test_a_part_can_be_set_for_one_site(overrides):
    model = build_model(*RECIPE, *overrides)
    self_scorers, cross = ([type(head.scorer).__name__ for head in heads.heads] for heads in _places(model))
    assert (self_scorers, cross) == (["Cosine"] * 2, ["Scaled"] * 2)


def test_a_part_with_options_can_be_set_for_one_site():
    for overrides in (["model.cross_scope={name: local, window: 5}"], ["+scope@model.cross_scope=local", LATER]):
        self_heads, cross = _places(build_model(*RECIPE, *overrides))
        assert cross.heads[1].scope.window == 5
        assert not hasattr(self_heads.heads[1].scope, "window")


LATER = "model.cross_scope.window=5"


def _places(model: Any) -> tuple[Any, Any]:
    layer = model.decoder.layers[0]
    return layer.self_attention, layer.cross_attention
