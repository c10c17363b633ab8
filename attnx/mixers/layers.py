"""Layers that several mixers have: a normalization of what heads read, and a causal convolution over few positions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.mixers.chunks import join_heads
from attnx.ops import at_least_float32

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


class ShortConvolution(nn.Module):
    """Each channel is a weighted sum of its values at the last ``width`` positions.

    Formula: ``y_t = sum_i w_i * x_{t - width + 1 + i}, i = 0 ... width - 1``
    Source: Fu et al. 2023, section 3.1, https://arxiv.org/abs/2212.14052
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, channels).uniform_(-(width**-0.5), width**-0.5))
        self.width, self.channels = width, channels
        self.state_size = (width - 1) * channels

    def init_state(self, rows: int, like: Tensor) -> Tensor:
        """Zeros (rows, width - 1, channels) stand before the first position."""
        return like.new_zeros(rows, self.width - 1, self.channels, dtype=at_least_float32(like.dtype))

    def forward(self, inputs: Tensor, mask: Tensor | None, earlier: Tensor) -> tuple[Tensor, Tensor]:
        """Convolve (b, t, channels) after the ``earlier`` inputs (b, width - 1, channels).

        Returns:
            (b, t, channels), and the last inputs; where the mask (b, t) has padding at the end, those before it.
        """
        steps, kept = inputs.shape[1], self.width - 1
        joined = torch.cat([earlier.to(inputs.dtype), inputs], 1)
        weight = self.weight.to(inputs.dtype)
        outputs = torch.stack([joined[:, i : i + steps] * weight[i] for i in range(self.width)]).sum(0)
        if mask is None:
            last = joined[:, steps:]
        else:
            index = mask.sum(1)[:, None] + torch.arange(kept, device=mask.device)
            last = joined.gather(1, index[..., None].expand(-1, -1, self.channels))
        return outputs, last.to(earlier.dtype)
