"""Products of rows with weights, without gradients: in C where that is faster than torch's."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from attnx.accel.lstm import autograd, bindings

MANY = 512
"""From so many rows on one product is worth laying the weights out for it."""


def product(inputs: Tensor, weights: Tensor, added: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """(..., k) times weights (u, k), and what is added to each row of that (u) -> (..., u).

    Args:
        inputs: whatever lies before the last axis.
        weights: what they are multiplied with.
        added: the bias.
        out: (n, u) where to write, of n rows of inputs (n, k); its rows may lie in something wider. No gradients then.
    """
    # What follows torch's operations, which C does not serve, is not to see how many rows there are.
    served = not torch.is_grad_enabled() and autograd.serves(inputs) and weights.numel() > 0
    rows = inputs.numel() // weights.shape[1] if served else 0
    prepared = autograd.prepared(weights, rows) if rows >= MANY else None
    if prepared is None or prepared.laid_out is None:
        found = F.linear(inputs, weights, added)
        return found if out is None else out.copy_(found)
    found = inputs.new_empty(rows, len(weights)) if out is None else out
    bindings.product(inputs.reshape(rows, -1), prepared, added, found)
    return found if out is not None else found.view(*inputs.shape[:-1], -1)
