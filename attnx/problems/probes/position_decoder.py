"""Decodes a whole sequence from the state of its last step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attnx.nn.position_encoding import sinusoidal
from attnx.nn.residual import NORMS


class PositionDecoder(nn.Module):
    """A small network that is given the state of the last marked step, and which step to write.

    Formula: ``z_t = N f(V N f(W N (h_T + p_t) + a) + b), f = GELU``, N a normalization by the root of the mean square
    Source: Poli et al. 2024, section 3.1 and their program, https://arxiv.org/abs/2403.17844
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        maps = [[NORMS["rms"](size), nn.Linear(size, size), nn.GELU()] for _ in range(2)]
        self.layers = nn.Sequential(*maps[0], *maps[1], NORMS["rms"](size))

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(b, t, size) and a mask (b, t) of n steps -> (n, size), in the order of rows."""
        rows, steps = mask.nonzero(as_tuple=True)
        last = (mask * torch.arange(mask.shape[1], device=mask.device)).amax(1)  # (b,)
        ends = states[torch.arange(len(states), device=last.device), last]  # (b, size)
        vectors: Tensor = self.layers(ends[rows] + sinusoidal(steps, states.shape[-1]).to(ends.dtype))
        return vectors
