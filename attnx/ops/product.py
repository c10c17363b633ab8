"""Products of many rows with weights, without gradients: in C where that is faster than torch's."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.ops import lstm, lstm_steps

MANY = 1024
"""From so many rows on one product is worth laying the weights out for it."""


def product(inputs: Tensor, weights: Tensor, out: Tensor | None = None) -> Tensor:
    """(..., k) times weights (u, k) -> (..., u).

    Args:
        inputs: whatever lies before the last axis.
        weights: without a bias.
        out: (n, u) where to write, of n rows of inputs (n, k); its rows may lie in something wider. No gradients then.
    """
    rows = inputs.numel() // weights.shape[1] if weights.shape[1] else 0
    fits = rows >= MANY and len(weights) % 4 == 0 and not torch.is_grad_enabled() and lstm.serves(inputs)
    prepared = lstm.prepared(weights, rows) if fits else None
    if prepared is None or prepared.laid_out is None:
        return F.linear(inputs, weights) if out is None else torch.mm(inputs, weights.t(), out=out)
    found = inputs.new_empty(rows, len(weights)) if out is None else out
    lstm_steps.product(inputs.reshape(rows, -1), prepared, found)
    return found if out is not None else found.view(*inputs.shape[:-1], -1)
