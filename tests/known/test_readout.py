"""The readout ``joint`` by hand: Luong et al. 2015, equation 5, and its options."""

import math

import pytest
import torch

from attnx.nn.readouts.joint import Joint

STATE, CONTEXT, TOKEN = torch.tensor([[2.0]]), torch.tensor([[3.0, 5.0]]), torch.tensor([[7.0, 11.0, 13.0]])


def joint(**options: object) -> Joint:
    return Joint(state_size=1, context_size=2, token_size=3, **options)


def test_equation_5():
    """tanh(W [h; c]) with W (2, 3, 5) = ln 3: 4/5."""
    readout = joint()
    with torch.no_grad():
        readout.join[0].weight.copy_(torch.tensor([[1.0, 2.0, (math.log(3) - 8) / 5]]))
    torch.testing.assert_close(readout(STATE, CONTEXT, TOKEN), torch.tensor([[4 / 5]]))
    assert readout.size == 1
    assert readout.join[0].bias is None


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (["state", "context", "token"], [2, 3, 5, 7, 11, 13]),
        (["token", "state"], [7, 11, 13, 2]),
        (["context"], [3, 5]),
        (["token"], [7, 11, 13]),
    ],
)
def test_the_concatenating_readout_has_no_parameters(inputs, expected):
    """Without tanh and size the inputs stand side by side, in the order given, and nothing is trained."""
    readout = joint(inputs=inputs, tanh=False)
    assert readout(STATE, CONTEXT, TOKEN).tolist() == [expected]
    assert readout.size == len(expected)
    assert not list(readout.parameters())


@pytest.mark.parametrize(
    ("options", "size", "parameters"),
    [
        ({}, 1, 3),  # the state's width, from state and context
        ({"hidden_size": 17}, 17, 51),
        ({"tanh": False, "hidden_size": 17}, 17, 51),
        ({"tanh": False, "hidden_size": 3}, 3, 0),  # the joined width as it is
        ({"inputs": ["state", "context", "token"], "hidden_size": 17}, 17, 102),
    ],
)
def test_sizes(options, size, parameters):
    readout = joint(**options)
    assert readout.size == size
    assert readout(STATE, CONTEXT, TOKEN).shape == (1, size)
    assert sum(value.numel() for value in readout.parameters()) == parameters


def test_a_size_without_tanh_is_linear():
    readout = joint(tanh=False, hidden_size=5)
    once, twice = readout(STATE, CONTEXT, TOKEN), readout(2 * STATE, 2 * CONTEXT, TOKEN)
    torch.testing.assert_close(twice, 2 * once)
