"""Weights over states that stand for several steps of the source each, as weights over these steps."""

from __future__ import annotations

import torch
from torch import Tensor


def pyramid_shares(present: Tensor, downsampling: int) -> Tensor:
    """(b, s) bool, which steps are there -> (b, s), the share of each in the state that stands for it.

    >>> pyramid_shares(torch.tensor([[True, True, True, False]]), 2)
    tensor([[0.5000, 0.5000, 1.0000, 0.0000]])
    """
    steps = torch.arange(present.shape[1], device=present.device)
    steps_of_state = (present.sum(-1, keepdim=True) - steps // downsampling * downsampling).clamp(1, downsampling)
    return present / steps_of_state


def upsample_weights(weights: Tensor, shares: Tensor, downsampling: int) -> Tensor:
    """Weights (b, ..., t, m), the first s / downsampling over the encoder's states -> (b, ..., t, s + the rest).

    >>> upsample_weights(torch.tensor([[[0.5, 0.25, 0.25]]]), torch.tensor([[0.5, 0.5, 1.0]]), 2)
    tensor([[[0.2500, 0.2500, 0.2500, 0.2500]]])
    """
    steps = torch.arange(shares.shape[1], device=shares.device) // downsampling
    while shares.dim() < weights.dim():
        shares = shares[:, None]
    states = (shares.shape[-1] + downsampling - 1) // downsampling
    return torch.cat([weights[..., steps] * shares, weights[..., states:]], dim=-1)
