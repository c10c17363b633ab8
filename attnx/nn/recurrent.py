"""A stack of recurrent layers that runs over a whole sequence at once or one step at a time, with the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attnx.accel.embedding_lookup import Lookup
from attnx.accel.lstm import autograd

Cell = Literal["lstm", "gru", "rnn"]
# The state of one layer: (h,), or (h, c) for an LSTM; each (b, hidden). A stack's state has one of these per layer.
LayerState = tuple[Tensor, ...]
State = tuple[LayerState, ...]

FUSED: dict[str, Any] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
STEPS: dict[str, Any] = {"lstm": torch.lstm_cell, "gru": torch.gru_cell, "rnn": torch.rnn_tanh_cell}
TENSORS = {"lstm": 2, "gru": 1, "rnn": 1}


class RnnOutput(NamedTuple):
    """A whole pass: the outputs of every layer, lowest first, each (b, t, hidden), and the state after it."""

    outputs: list[Tensor]
    state: State


class Recurrent(nn.Module):
    """Layers of one kind of cell.

    Dropout between the layers comes from masks its caller draws, so that a loop and a fused pass drop the same units.

    Args:
        cell: ``lstm``, ``gru`` or ``rnn`` (tanh).
        input_size: width of the inputs.
        hidden_size: width of each layer (of each direction).
        layers: how many.
        bidirectional: also run from the end; outputs and states of both directions are concatenated.
    """

    def __init__(
        self, cell: Cell, input_size: int, hidden_size: int, layers: int = 1, bidirectional: bool = False
    ) -> None:
        super().__init__()
        self.size = hidden_size * (2 if bidirectional else 1)
        self.tensors = TENSORS[cell]
        self._step = STEPS[cell]
        sizes = [input_size] + [self.size] * (layers - 1)
        self.layers = nn.ModuleList(
            FUSED[cell](size, hidden_size, batch_first=True, bidirectional=bidirectional) for size in sizes
        )

    def looks_up(self, table: Tensor, ids: Tensor) -> bool:
        """Whether :meth:`run` had better be given a lookup than the rows of the table (n, e) that ids (b, t) find."""
        return isinstance(self.layers[0], nn.LSTM) and autograd.looks_up(table, ids)

    def run(
        self,
        inputs: Tensor | Lookup,
        lengths: Tensor | None = None,
        state: State | None = None,
        keep: Sequence[Tensor | None] = (),
    ) -> RnnOutput:
        """Run over whole sequences.

        Args:
            inputs: (b, t, input_size), or a lookup of as much, where :meth:`looks_up` says so.
            lengths: (b,) on the CPU, each at least 1; left out, every row is full. What lies beyond a row's length
                changes nothing and its outputs there are 0.
            state: where to start; zeros if left out.
            keep: dropout masks (b, t, size), or None, for the inputs of the second layer and up.
        """
        outputs: list[Tensor] = []
        final = []
        for number, layer in enumerate(self.layers):
            if number:
                inputs = self._drop(outputs[-1], number, keep)
            output, after = self._run_layer(layer, inputs, lengths, state[number] if state else None)
            outputs.append(output)
            final.append(after)
        return RnnOutput(outputs, tuple(final))

    @staticmethod
    def _drop(inputs: Tensor, layer: int, keep: Sequence[Tensor | None]) -> Tensor:
        mask = keep[layer - 1] if layer and keep else None
        return inputs if mask is None else inputs * mask

    def _run_layer(
        self, layer: nn.Module, inputs: Tensor | Lookup, lengths: Tensor | None, state: LayerState | None
    ) -> tuple[Tensor, LayerState]:
        finals: LayerState
        if isinstance(layer, nn.LSTM) and (isinstance(inputs, Lookup) or autograd.serves(inputs)):
            outputs, finals = autograd.run(inputs, lengths, (state[0], state[1]) if state else None, _directions(layer))
        else:
            assert isinstance(inputs, Tensor), "a lookup is for an LSTM"
            outputs, finals = self._run_torchs(layer, inputs, lengths, state)
        # (directions, b, hidden) -> (b, directions * hidden)
        return outputs, tuple(tensor.transpose(0, 1).flatten(1) for tensor in finals)

    def _run_torchs(
        self, layer: nn.Module, inputs: Tensor, lengths: Tensor | None, state: LayerState | None
    ) -> tuple[Tensor, LayerState]:
        start = None
        if state is not None:
            stacked = tuple(tensor[None].contiguous() for tensor in state)
            start = stacked if self.tensors == 2 else stacked[0]
        if lengths is None:
            outputs, final = layer(inputs, start)
        else:
            packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
            outputs, final = layer(packed, start)
            outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=inputs.shape[1])
        return outputs, final if self.tensors == 2 else (final,)

    def step(self, inputs: Tensor, state: State, keep: Sequence[Tensor | None] = ()) -> State:
        """Take one step: (b, input_size) and the state before -> the state after; its top ``h`` is ``state[-1][0]``."""
        after: list[LayerState] = []
        for number, (layer, before) in enumerate(zip(self.layers, state, strict=True)):
            inputs = self._drop(inputs, number, keep)
            after.append(self._step_layer(layer, inputs, before))
            inputs = after[-1][0]
        return tuple(after)

    def _step_layer(self, layer: Any, inputs: Tensor, before: LayerState) -> LayerState:
        if isinstance(layer, nn.LSTM) and not torch.is_grad_enabled() and autograd.serves(inputs):
            ((into, of_state, bias),) = _directions(layer)
            return autograd.step(before[1], torch.addmm(bias, inputs, into.t()).addmm_(before[0], of_state.t()))
        weights = (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)
        result = self._step(inputs, before if self.tensors == 2 else before[0], *weights)
        return tuple(result) if self.tensors == 2 else (result,)


def _directions(layer: nn.LSTM) -> list[autograd.OfDirection]:
    """What :mod:`attnx.accel.lstm.autograd` needs of each direction."""
    return [(into, of_state, one + other) for into, of_state, one, other in layer.all_weights]
