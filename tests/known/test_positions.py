"""Position keys: the vectors by hand, and a memory that is read by position only."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnx.models.seq2seq.parts import DecoderStateProjection
from attnx.nn.position_encoding import one_hot, sinusoidal
from attnx.ops import rope_cos_sin

SOURCE, SOURCE_MASK = torch.tensor([[5, 7, 11]]), torch.ones(1, 3, dtype=torch.bool)


def test_one_hot():
    """Positions from the last place on share it."""
    assert one_hot(torch.tensor([0, 2, 3, 13]), 4).tolist() == [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1]]


@pytest.mark.parametrize("width", [3, 4])
def test_sinusoidal(width):
    """Rates 1 and 10,000^(-1/2) = 1/100: sines, then cosines; an odd width lacks the last cosine."""
    actual = sinusoidal(torch.tensor([[0], [7]]), width)
    expected = [[0.0, 0.0, 1.0, 1.0], [math.sin(7), math.sin(0.07), math.cos(7), math.cos(0.07)]]
    torch.testing.assert_close(actual, torch.tensor(expected)[:, None, :width])


@pytest.mark.parametrize("encode", [sinusoidal, rope_cos_sin])
def test_angles_are_not_computed_in_16_bits(encode):
    positions = torch.arange(512)
    expected = encode(positions, 64)
    torch.set_default_dtype(torch.bfloat16)
    try:
        torch.testing.assert_close(encode(positions, 64), expected.bfloat16(), rtol=0, atol=0)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("source", ["encoder", "decoder"])
def test_keys_are_positions(build_model, source):
    """``concat`` with w = ln 2 (0, 1, 2, ...) scores position p with p ln 2: of three, 1 : 2 : 4, of two, 1 : 2."""
    model = build_model(
        scorer="concat",
        scope=("global", {"sources": [source]}),
        query=["language_tag"],
        model={"keys_from": "one_hot", "feed": "none"},
    )
    with torch.no_grad():
        model.attention.scorer.memory.weight.copy_(math.log(2) * torch.arange(19.0))
    weights = model(SOURCE, SOURCE_MASK, torch.tensor([[1, 5, 3]]), need_weights=True).weights[0]
    grown = [[0, 0, 0], [1, 0, 0], [1 / 3, 2 / 3, 0]]
    torch.testing.assert_close(weights, torch.tensor(grown if source == "decoder" else [[1 / 7, 2 / 7, 4 / 7]] * 3))


@pytest.mark.parametrize("memory", ["one_hot", "sinusoidal"])
@pytest.mark.parametrize("scope", ["global", "history", "encoder_decoder"])
def test_position_keys_ignore_the_content(build_model, memory, scope):
    """Asked with the tag alone, positions weigh the same whatever is read and written; contexts are of states."""
    model = build_model(scope=scope, query=["language_tag"], model={"keys_from": memory, "feed": "none"}).eval()

    def forward(source: Tensor, inputs: list[int]) -> Any:
        return model(source, SOURCE_MASK, torch.tensor([inputs]), need_weights=True)

    first, second = forward(SOURCE, [1, 5, 3]), forward(SOURCE + 2, [1, 2, 8])
    torch.testing.assert_close(first.weights, second.weights)
    assert not torch.allclose(first.logits[:, 0], second.logits[:, 0])


def test_decoder_states_have_position_keys():
    """Keys are the steps' positions whatever the states are, and values the states, in the memory's widths."""
    projection, states = (
        DecoderStateProjection(state_size=13, keys_size=5, values_size=11, keys="one_hot"),
        torch.randn(2, 3, 13),
    )
    keys, values = projection(states, torch.tensor([[2], [0]]).expand(2, 3))
    assert torch.equal(keys, torch.eye(5)[torch.tensor([2, 0])][:, None].expand(2, 3, 5))
    torch.testing.assert_close(values, projection.values(states))
    assert [name for name, _ in projection.named_parameters()] == ["values.weight"]


@pytest.mark.parametrize(
    ("sizes", "parameters"),
    [
        ((13, 13, 13), []),  # they fit as they are
        ((13, 11, 11), ["values.weight"]),  # one map: keys and values are the same
        ((13, 11, 5), ["values.weight", "keys.weight"]),
        ((13, 13, 5), ["values.weight"]),
    ],
)
def test_decoder_states_fit_into_the_memory(sizes, parameters):
    projection = DecoderStateProjection(*sizes, keys="states")
    keys, values = projection(torch.randn(2, 3, sizes[0]), torch.arange(3))
    assert (keys.shape[-1], values.shape[-1]) == sizes[1:]
    assert torch.equal(keys, values) is (sizes[1] == sizes[2])
    assert [name for name, _ in projection.named_parameters()] == parameters
