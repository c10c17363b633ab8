"""Weights over states that stand for several steps of the source each, as weights over these steps."""

from __future__ import annotations

import torch
from torch import Tensor


def shares(present: Tensor, pace: int) -> Tensor:
    """(b, s) bool, which steps are there -> (b, s), the share of each in the state that stands for it.

    >>> shares(torch.tensor([[True, True, True, False]]), 2)
    tensor([[0.5000, 0.5000, 1.0000, 0.0000]])
    """
    at = torch.arange(present.shape[1], device=present.device)
    together = (present.sum(-1, keepdim=True) - at // pace * pace).clamp(1, pace)
    return present / together


def spread(weights: Tensor, among: Tensor, pace: int) -> Tensor:
    """Weights (b, ..., t, m), of which the first s / pace are over the source's states -> (b, ..., t, s + the rest).

    >>> spread(torch.tensor([[[0.5, 0.25, 0.25]]]), torch.tensor([[0.5, 0.5, 1.0]]), 2)
    tensor([[[0.2500, 0.2500, 0.2500, 0.2500]]])
    """
    at = torch.arange(among.shape[1], device=among.device) // pace
    while among.dim() < weights.dim():
        among = among[:, None]
    states = (among.shape[-1] + pace - 1) // pace
    return torch.cat([weights[..., at] * among, weights[..., states:]], dim=-1)
