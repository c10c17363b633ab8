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


def test_a_deeper_decoder_starts_from_the_top_layer():
    """Equal depths map layer to layer."""
    close(last("gru", 2)(state((LN2,), (LN3,)), 1), [[3 / 5], [4 / 5]])
    close(last("gru", 3)(state((LN2,), (LN3,)), 1), [[3 / 5], [4 / 5], [4 / 5]])


def test_widths_are_projected():
    bridge = EncoderStateBridge(Recurrent("lstm", 3, 13, 2), encoder_size=5)
    result = bridge(tuple((torch.randn(2, 5), torch.randn(2, 5)) for _ in range(2)), 2)
    assert [[tuple(tensor.shape) for tensor in layer] for layer in result] == [[(2, 13)] * 2] * 2


@pytest.mark.parametrize(("cell", "tensors"), [("lstm", 2), ("gru", 1), ("rnn", 1)])
def test_a_start_without_an_encoder_is_zeros_or_a_parameter(cell, tensors):
    """The same for every row; the zeros leave nothing to train or to save, and each tensor of the learned one is
    trained by all rows: the gradient of a sum counts them."""
    zeros, learned = (part(Recurrent(cell, 3, 13, 2), encoder_size=5) for part in (ZeroBridge, LearnedBridge))
    first, second = zeros((), 7), learned((), 7)
    assert [len(layer) for layer in first] == [len(layer) for layer in second] == [tensors] * 2
    assert all(tensor.shape == (7, 13) and (tensor == 0).all() for layer in first for tensor in layer)
    assert not zeros.state_dict()
    for number, layer in enumerate(second):
        for which, tensor in enumerate(layer):
            assert torch.equal(tensor, learned.start[number, which].expand(7, 13))
    sum(tensor.sum() for layer in second for tensor in layer).backward()
    assert (learned.start.grad == 7).all()


def test_every_bridge_is_registered():
    assert {"last": EncoderStateBridge, "zeros": ZeroBridge, "learned": LearnedBridge} == BRIDGES
