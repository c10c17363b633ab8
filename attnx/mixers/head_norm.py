"""Normalizes what the heads of a mixer read, with an optional gate."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.mixers.chunks import join_heads

SMALLEST_SQUARE = 1e-5  # that is added to the mean of the squares


class HeadNorm(nn.Module):
    """The root mean square of each head is made 1, times a weight for each of its units, times a gate by position.

    Formula: ``[RMSNorm(o_1); ...; RMSNorm(o_h)] * swish(G x)``
    Source: Sun et al. 2023, equation 8, https://arxiv.org/abs/2307.08621; with RMSNorm for its GroupNorm, as
        flash-linear-attention has it
    """

    def __init__(self, hidden_size: int, heads: int, width: int, is_gated: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.gate = nn.Linear(hidden_size, heads * width, bias=False) if is_gated else None

    def forward(self, context: Tensor, states: Tensor) -> Tensor:
        """(b, h, t, v) and the positions (b, t, hidden_size) -> (b, t, h v)."""
        # Written out, since ONNX has no such operation; the context is in float32 or wider.
        scale = torch.rsqrt(context.square().mean(-1, keepdim=True) + SMALLEST_SQUARE)
        normalized = join_heads(context * scale * self.weight.to(context.dtype)).to(states.dtype)
        return normalized if self.gate is None else normalized * F.silu(self.gate(states))
