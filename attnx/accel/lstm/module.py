"""LSTM layers that run in C on a CPU, and embeddings that let them project the table once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from attnx.accel.lstm import autograd
from attnx.accel.lstm.autograd import DirectionWeights, Lookup
from attnx.accel.lstm.bindings import can_run_lstm
from attnx.nn.recurrent import LayerState, MemoryCellLayer, concat


class FastEmbedding(nn.Embedding):
    """An embedding whose output has an attribute ``lookup``, the table and the ids, for an LSTM that reads it.

    A tensor computed from the output, by dropout or a mask, has none. Nor has an output in inference mode, where a
    change in place would go unnoticed. Who keeps the output can ask for its gradient, before or after the LSTM ran.
    """

    def forward(self, ids: Tensor) -> Tensor:
        """(...) ids -> (..., e)."""
        rows = super().forward(ids)
        has_plain_gradient = not (self.scale_grad_by_freq or self.sparse)
        if ids.dim() == 2 and has_plain_gradient and can_run_lstm(self.weight) and not rows.is_inference():
            lookup = Lookup(self.weight, ids.long(), self.padding_idx, rows._version)
            rows.lookup = lookup  # type: ignore[attr-defined]
        return rows


def unchanged_lookup(rows: Tensor) -> Lookup | None:
    """The lookup that a tensor is the output of, unless it was changed in place, or a hook waits for its gradient."""
    lookup: Lookup | None = getattr(rows, "lookup", None)
    if lookup is None or rows.is_inference() or rows._version != lookup.version:
        return None
    return None if rows._backward_hooks else lookup


class FastMemoryCellLayer(MemoryCellLayer):
    """The LSTM layer in C where it is faster than torch's: on a CPU, in single precision."""

    def run(
        self, inputs: Sequence[Tensor], lengths: Tensor | None, state: LayerState | None
    ) -> tuple[Tensor, LayerState]:
        """As :meth:`RecurrentLayer.run`."""
        if not can_run_lstm(inputs[0]):
            return super().run(inputs, lengths, state)
        lookup = unchanged_lookup(inputs[0])
        rows = None
        if lookup is not None and autograd.prefers_lookup(lookup):
            rows, *inputs = inputs
        else:
            lookup = None
        start = None if state is None else (state[0], state[1])
        joined = concat(inputs) if inputs else None
        outputs, finals = autograd.lstm(lookup, joined, lengths, start, self._directions(), rows)
        # (directions, b, hidden) -> (b, directions * hidden)
        return outputs, tuple(final.transpose(0, 1).flatten(1) for final in finals)

    def step(self, inputs: Sequence[Tensor], state: LayerState) -> LayerState:
        """As :meth:`RecurrentLayer.step`; in C without gradients."""
        if torch.is_grad_enabled() or not can_run_lstm(inputs[0]):
            return super().step(inputs, state)
        ((weight_ih, weight_hh, bias),) = self._directions()
        gates = torch.addmm(bias, concat(inputs), weight_ih.t()).addmm_(state[0], weight_hh.t())
        return autograd.lstm_step(state[1], gates)

    def _directions(self) -> list[DirectionWeights]:
        weights = self.all_weights
        return [(weight_ih, weight_hh, bias_ih + bias_hh) for weight_ih, weight_hh, bias_ih, bias_hh in weights]
