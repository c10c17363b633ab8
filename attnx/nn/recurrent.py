"""A stack of recurrent layers that runs over whole sequences or one step at a time, with the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

Cell = Literal["lstm", "gru", "rnn"]
# The state of one layer: (h,), or (h, c) for an LSTM; each (b, hidden). A stack's state has one of these per layer.
LayerState = tuple[Tensor, ...]
State = tuple[LayerState, ...]

STEPS: dict[str, Any] = {"LSTM": torch.lstm_cell, "GRU": torch.gru_cell, "RNN_TANH": torch.rnn_tanh_cell}


def top_hidden(state: State) -> Tensor:
    """(b, d), h of the top layer."""
    return state[-1][0]


class RnnOutput(NamedTuple):
    """A pass over whole sequences."""

    outputs: list[Tensor]  # of every layer, lowest first, each (b, t, hidden)
    state: State  # after the last step


class RecurrentLayer(nn.RNNBase):
    """One of torch's recurrent layers, over sequences of different lengths or one step at a time."""

    def run(
        self, inputs: Sequence[Tensor], lengths: Tensor | None, state: LayerState | None
    ) -> tuple[Tensor, LayerState]:
        """Run over whole sequences: inputs (b, t, ...) side by side -> outputs (b, t, hidden) and the last state."""
        joined = concat(inputs)
        stacked = None if state is None else tuple(tensor[None].contiguous() for tensor in state)
        start = stacked if stacked is None or self.mode == "LSTM" else stacked[0]
        if lengths is None or not len(lengths):  # torch packs no batch without rows
            outputs, final = self(joined, start)
        else:  # as torch with ``enforce_sorted=False``, which waits until a GPU has received the order of the rows
            lengths, order = lengths.sort(descending=True)
            order = order.to(joined.device, non_blocking=True)
            packed = pack_padded_sequence(joined.index_select(0, order), lengths, batch_first=True)
            ran, final = self(PackedSequence(packed.data, packed.batch_sizes, order), start)
            in_order = PackedSequence(ran.data, ran.batch_sizes)  # of this order, which torch would copy to the CPU
            padded, _ = pad_packed_sequence(in_order, batch_first=True, total_length=joined.shape[1])
            outputs = padded.index_select(0, ran.unsorted_indices)
        finals = final if self.mode == "LSTM" else (final,)
        # (directions, b, hidden) -> (b, directions * hidden)
        return outputs, tuple(tensor.transpose(0, 1).flatten(1) for tensor in finals)

    def step(self, inputs: Sequence[Tensor], state: LayerState) -> LayerState:
        """Take one step: inputs (b, ...) side by side and the previous state -> the next state."""
        weights = self.all_weights[0]
        result = STEPS[self.mode](concat(inputs), state if self.mode == "LSTM" else state[0], *weights)
        return tuple(result) if self.mode == "LSTM" else (result,)


class MemoryCellLayer(RecurrentLayer, nn.LSTM):
    """A layer of LSTM cells; its state is (h, c)."""


class GatedLayer(RecurrentLayer, nn.GRU):
    """A layer of GRU cells; its state is (h,)."""


class TanhLayer(RecurrentLayer, nn.RNN):
    """A layer of plain cells with tanh; its state is (h,)."""


LAYERS: dict[str, type[RecurrentLayer]] = {"lstm": MemoryCellLayer, "gru": GatedLayer, "rnn": TanhLayer}


class Recurrent(nn.Module):
    """Layers of one kind of cell.

    Dropout between the layers comes from masks its caller draws, so that a loop and a fused pass drop the same units.
    With ``bidirectional`` layers also run from the end, and the outputs and states of both directions are concatenated.
    """

    def __init__(
        self, cell: Cell, input_size: int, hidden_size: int, layers: int = 1, bidirectional: bool = False
    ) -> None:
        super().__init__()
        self.size = hidden_size * (2 if bidirectional else 1)
        self.num_layers = layers
        self.tensors_per_layer = 2 if cell == "lstm" else 1
        sizes = [input_size] + [self.size] * (layers - 1)
        layer: Any = LAYERS[cell]
        self.layers: Sequence[RecurrentLayer] = nn.ModuleList(  # type: ignore[assignment]
            layer(size, hidden_size, batch_first=True, bidirectional=bidirectional) for size in sizes
        )

    def run(
        self,
        inputs: Sequence[Tensor],
        lengths: Tensor | None = None,
        state: State | None = None,
        dropout_masks: Sequence[Tensor | None] = (),
    ) -> RnnOutput:
        """Run over whole sequences.

        Args:
            inputs: (b, t, ...) side by side, together ``input_size`` wide.
            lengths: (b,) on the CPU, each at least 1; left out, every row is full. What lies beyond a row's length
                changes nothing and its outputs there are 0.
            state: the start; zeros if left out.
            dropout_masks: (b, t, size), or None, for the inputs of the second layer and up.
        """
        outputs: list[Tensor] = []
        finals: list[LayerState] = []
        for index, layer in enumerate(self.layers):
            inputs = [_drop(outputs[-1], index, dropout_masks)] if index else inputs
            output, final = layer.run(inputs, lengths, state[index] if state else None)
            outputs.append(output)
            finals.append(final)
        return RnnOutput(outputs, tuple(finals))

    def step(self, inputs: Sequence[Tensor], state: State, dropout_masks: Sequence[Tensor | None] = ()) -> State:
        """Take one step: inputs (b, ...) side by side and the previous state -> the next state."""
        next_state: list[LayerState] = []
        for index, layer in enumerate(self.layers):
            inputs = [_drop(next_state[-1][0], index, dropout_masks)] if index else inputs
            next_state.append(layer.step(inputs, state[index]))
        return tuple(next_state)


def count_steps(mask: Tensor, lengths: Tensor | None) -> Tensor:
    """The lengths to pack rows by: (b,) int64 on the CPU, at least 1.

    Args:
        mask: (b, s) bool, False at padding, which comes last.
        lengths: (b,) int64, if they are known; counting them in the mask waits for a GPU.
    """
    return (mask.sum(-1) if lengths is None else lengths).clamp(min=1).cpu()


def _drop(inputs: Tensor, layer_index: int, dropout_masks: Sequence[Tensor | None]) -> Tensor:
    mask = dropout_masks[layer_index - 1] if dropout_masks else None
    return inputs if mask is None else inputs * mask


def dropout_mask(like: Tensor, rate: float, training: bool, *shape: int) -> Tensor | None:
    """Draw a mask of the given shape to multiply with: 0 with probability ``rate``, else 1 / (1 - rate).

    Masks are drawn before a schedule runs, so that every schedule drops the same units.

    Returns None when nothing would be dropped. ``like`` gives dtype and device.
    """
    if not training or rate == 0.0:
        return None
    return torch.empty(shape, dtype=like.dtype, device=like.device).bernoulli_(1 - rate) / (1 - rate)


def concat(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate along the last axis; one part is returned as it is."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=-1)
