"""Linear maps without gradients, in C where that is faster than torch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.accel.lstm.bindings import can_run_lstm, pack_weights, packed_linear
from attnx.nn.contracts import OutputInputs
from attnx.nn.outputs.linear import LinearOutput

MIN_ROWS_FOR_C = 512
"""From so many rows on one product is worth packing the weights for it."""


def fast_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """As :func:`torch.nn.functional.linear`: (..., k), a weight (u, k) and a bias (u) -> (..., u).

    Without gradients n rows of inputs (n, k) may be written to ``out`` (n, u), whose rows may be strided.
    """
    # Under tracing, which C does not support, the number of rows must not be looked at.
    is_supported = not torch.is_grad_enabled() and can_run_lstm(inputs) and weight.numel() > 0
    rows = inputs.numel() // weight.shape[1] if is_supported else 0
    packed = pack_weights(weight, rows) if rows >= MIN_ROWS_FOR_C else None
    if packed is None or packed.tiles is None:
        result = F.linear(inputs, weight, bias)
        return result if out is None else out.copy_(result)
    result = inputs.new_empty(rows, len(weight)) if out is None else out
    packed_linear(inputs.reshape(rows, -1), packed, bias, result)
    return result if out is not None else result.view(*inputs.shape[:-1], -1)


class FastLinearOutput(LinearOutput):
    """The linear output layer, in C without gradients."""

    def forward(self, vectors: Tensor, inputs: OutputInputs | None = None) -> Tensor:
        """Readouts (..., size) -> (..., width)."""
        return fast_linear(vectors, self.weight, self.bias)
