"""The recurrence: one unit by hand, and steps that equal the fused pass."""

import math
from typing import Any

import pytest
import torch

from attnx.nn.recurrent import Recurrent, dropout_mask

CELLS = ["lstm", "gru", "rnn"]
LN2, LN3 = math.log(2), math.log(3)  # tanh(ln 2) = 3/5, tanh(ln 3) = 4/5


def one_unit(cell: Any, **weights: list[float]) -> Recurrent:
    """A cell of one unit that reads one number; weights that are not given are 0."""
    recurrent = Recurrent(cell, input_size=1, hidden_size=1)
    for name, value in recurrent.layers[0].named_parameters():
        torch.nn.init.zeros_(value)
        if name.removesuffix("_l0") in weights:
            value.data.copy_(torch.tensor(weights[name.removesuffix("_l0")]).reshape(value.shape))
    return recurrent


def states(recurrent: Recurrent, inputs: list[float], start: Any = None) -> list[float]:
    """The top states of a whole pass, which those of single steps must equal."""
    input_rows = torch.tensor(inputs)[None, :, None]
    ran = recurrent.run([input_rows], state=start).outputs[-1]
    state = start or (tuple(torch.zeros(1, 1) for _ in range(recurrent.tensors_per_layer)),)
    for step in range(len(inputs)):
        state = recurrent.step([input_rows[:, step]], state)
        torch.testing.assert_close(state[-1][0], ran[:, step])
    return ran.flatten().tolist()


def test_rnn_and_gru_by_hand():
    """h = tanh(x + 2 h'): tanh(ln 2) = 3/5, then tanh((ln 3 - 6/5) + 2 * 3/5) = 4/5; from (ln 3) / 2 it is 4/5.

    An update gate half open mixes: h = tanh(ln 3) / 2 + (1/5) / 2 = 1/2.
    """
    rnn = one_unit("rnn", weight_ih=[1.0], weight_hh=[2.0])
    assert states(rnn, [LN2, LN3 - 6 / 5]) == pytest.approx([3 / 5, 4 / 5])
    assert states(rnn, [0.0], ((torch.tensor([[LN3 / 2]]),),)) == pytest.approx([4 / 5])
    gru = one_unit("gru", weight_ih=[0.0, 0.0, 1.0])
    assert states(gru, [LN3], ((torch.tensor([[1 / 5]]),),)) == pytest.approx([1 / 2])


def test_lstm_by_hand():
    """Gates of zero weights are half open; the candidate is tanh(x).

    c = c' / 2 + tanh(ln 3) / 2 with c' = 2 (ln 2 - 2/5), so c = ln 2 and h = tanh(ln 2) / 2 = 3/10. PyTorch stacks the
    gates as input, forget, candidate, output.
    """
    recurrent = one_unit("lstm", weight_ih=[0.0, 0.0, 1.0, 0.0])
    start = ((torch.tensor([[0.0]]), torch.tensor([[2 * (LN2 - 2 / 5)]])),)
    assert states(recurrent, [LN3], start) == pytest.approx([3 / 10])
    ((h, c),) = recurrent.step([torch.tensor([[LN3]])], start)
    assert (h.item(), c.item()) == pytest.approx((3 / 10, LN2))


def test_both_directions_by_hand():
    """Without recurrent weights one direction is tanh(x), the other tanh(-x): outputs stand side by side."""
    recurrent = Recurrent("rnn", input_size=1, hidden_size=1, bidirectional=True)
    for name, value in recurrent.layers[0].named_parameters():
        torch.nn.init.constant_(
            value, 1.0 if name == "weight_ih_l0" else -1.0 if name == "weight_ih_l0_reverse" else 0.0
        )
    ran = recurrent.run([torch.tensor([[[LN2], [LN3]]])])
    torch.testing.assert_close(ran.outputs[-1], torch.tensor([[[3 / 5, -3 / 5], [4 / 5, -4 / 5]]]))
    # Forward ends on the last input, backward on the first.
    torch.testing.assert_close(ran.state[-1][0], torch.tensor([[4 / 5, -3 / 5]]))


def start_of(recurrent: Recurrent) -> Any:
    return tuple(
        tuple(torch.randn(2, recurrent.size) for _ in range(recurrent.tensors_per_layer)) for _ in recurrent.layers
    )


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("cell", CELLS)
def test_steps_equal_the_run(cell, layers):
    """Every layer, with units dropped between them, from a state that is not zero."""
    recurrent, inputs = Recurrent(cell, 7, 13, layers), torch.randn(2, 5, 7)
    start = state = start_of(recurrent)
    keep = [2 * torch.bernoulli(torch.full((2, 5, 13), 0.5)) for _ in range(layers - 1)]
    ran = recurrent.run([inputs], state=start, dropout_masks=keep)
    for step in range(5):
        state = recurrent.step([inputs[:, step]], state, [mask[:, step] for mask in keep])
        for outputs, layer in zip(ran.outputs, state, strict=True):
            torch.testing.assert_close(layer[0], outputs[:, step])
    for actual, expected in zip(state, ran.state, strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_outputs_beyond_a_length_are_zero(cell, bidirectional):
    """A short row in a long batch is that row alone, with zeros behind it and its own last state."""
    recurrent, inputs = Recurrent(cell, 7, 13, 2, bidirectional), torch.randn(2, 5, 7)
    ran = recurrent.run([inputs], torch.tensor([5, 3]))
    alone = recurrent.run([inputs[1:, :3]])
    for together, by_itself in zip(ran.outputs, alone.outputs, strict=True):
        torch.testing.assert_close(together[1:, :3], by_itself)
        assert (together[1, 3:] == 0).all()
    for together_state, alone_state in zip(ran.state, alone.state, strict=True):
        for tensor, expected in zip(together_state, alone_state, strict=True):
            torch.testing.assert_close(tensor[1:], expected)


@pytest.mark.parametrize(("cell", "tensors"), [("lstm", 2), ("gru", 1), ("rnn", 1)])
def test_each_cell_has_its_state(cell, tensors):
    recurrent = Recurrent(cell, 7, 13, layers=3, bidirectional=True)
    state = recurrent.run([torch.randn(2, 5, 7)]).state
    assert recurrent.size == 26
    assert [[tuple(tensor.shape) for tensor in layer] for layer in state] == [[(2, 26)] * tensors] * 3


@pytest.mark.parametrize(("deaf", "same"), [(0, [False, True, True]), (1, [False, False, True])])
def test_dropout_masks_apply_from_the_second_layer(deaf, same):
    """A mask of zeros before a layer makes it and those above deaf to the input; those below hear as before."""
    recurrent = Recurrent("gru", 7, 13, layers=3)
    first, second = torch.randn(2, 2, 5, 7)
    masks = [torch.full((2, 5, 13), float(number != deaf)) for number in range(2)]
    first_item, two = (recurrent.run([value], dropout_masks=masks).outputs for value in (first, second))
    assert [torch.equal(below, above) for below, above in zip(first_item, two, strict=True)] == same


def test_a_dropout_mask_keeps_the_mean():
    mask = dropout_mask(torch.ones(()), 0.75, True, 10_007)
    assert set(mask.tolist()) == {0.0, 4.0}
    assert mask.mean().item() == pytest.approx(1, abs=0.2)
