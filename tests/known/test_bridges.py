"""Bridges, by hand."""

import math
from typing import Any

import pytest
import torch

from attnx.nn.bridges import BRIDGES, EncoderStateBridge, LearnedBridge, ZeroBridge
from attnx.nn.recurrent import Recurrent, State

LN2, LN3 = math.log(2), math.log(3)  # tanh(ln 2) = 3/5, tanh(ln 3) = 4/5


def last(cell: Any, layers: int, weight: float = 1.0) -> EncoderStateBridge:
    """A bridge from one unit to one unit whose maps multiply by ``weight``, those of a c by twice that."""
    bridge = EncoderStateBridge(Recurrent(cell, 1, 1, layers), encoder_size=1)
    for maps in bridge.maps:
        for factor, linear in enumerate(maps, start=1):
            torch.nn.init.constant_(linear.weight, factor * weight)
            torch.nn.init.zeros_(linear.bias)
    return bridge


def state(*layers: tuple[float, ...]) -> State:
    return tuple(tuple(torch.tensor([[value]]) for value in layer) for layer in layers)


def numbers(actual: State) -> list[list[float]]:
    return [[tensor.item() for tensor in layer] for layer in actual]


def close(actual: State, expected: list[list[float]]) -> None:
    assert numbers(actual) == [pytest.approx(layer) for layer in expected]


def test_only_the_hidden_state_passes_a_tanh():
    """h = tanh(1 * ln 2), c = 2 * 7."""
    close(last("lstm", 1)(state((LN2, 7.0)), 1), [[3 / 5, 14.0]])


@pytest.mark.parametrize("cell", ["gru", "rnn"])
def test_a_gru_state_has_no_cell(cell):
    """A GRU takes an LSTM's h and leaves its c; the other way round the h stands in for the c."""
    close(last(cell, 1)(state((LN2, 7.0)), 1), [[3 / 5]])
    close(last("lstm", 1)(state((LN2,)), 1), [[3 / 5, 2 * LN2]])


def test_equal_depths_map_layer_to_layer():
    close(last("gru", 2)(state((LN2,), (LN3,)), 1), [[3 / 5], [4 / 5]])


def test_a_deeper_decoder_starts_from_the_top_layer():
    close(last("gru", 3)(state((LN2,), (LN3,)), 1), [[3 / 5], [4 / 5], [4 / 5]])


def test_widths_are_projected():
    bridge = EncoderStateBridge(Recurrent("lstm", 3, 13, 2), encoder_size=5)
    result = bridge(tuple((torch.randn(2, 5), torch.randn(2, 5)) for _ in range(2)), 2)
    assert [[tuple(tensor.shape) for tensor in layer] for layer in result] == [[(2, 13)] * 2] * 2


@pytest.mark.parametrize(("cell", "tensors"), [("lstm", 2), ("gru", 1), ("rnn", 1)])
def test_the_zero_bridge_gives_zeros(cell, tensors):
    """Zeros for every row, whatever the encoder did, and nothing to train or to save."""
    bridge = ZeroBridge(Recurrent(cell, 3, 13, 2), encoder_size=5)
    result = bridge((), 7)
    assert [len(layer) for layer in result] == [tensors] * 2
    assert all(tensor.shape == (7, 13) and (tensor == 0).all() for layer in result for tensor in layer)
    assert not bridge.state_dict()


@pytest.mark.parametrize(("cell", "tensors"), [("lstm", 2), ("gru", 1), ("rnn", 1)])
def test_the_learned_bridge_is_a_parameter(cell, tensors):
    """One state for every row, each of its tensors trained by all of them: the gradient of a sum counts the rows."""
    bridge = LearnedBridge(Recurrent(cell, 3, 13, 2), encoder_size=5)
    result = bridge((), 7)
    assert [len(layer) for layer in result] == [tensors] * 2
    for number, layer in enumerate(result):
        for which, tensor in enumerate(layer):
            assert torch.equal(tensor, bridge.start[number, which].expand(7, 13))
    sum(tensor.sum() for layer in result for tensor in layer).backward()
    assert (bridge.start.grad == 7).all()


def test_every_bridge_is_registered():
    assert {"last": EncoderStateBridge, "zeros": ZeroBridge, "learned": LearnedBridge} == BRIDGES
