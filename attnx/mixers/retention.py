"""The mixer ``retention``."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnx.mixers.chunks import chunk_decays, head_width, run_chunks, split_heads, zero_padding
from attnx.mixers.layers import HeadNorm
from attnx.ops import apply_rope, at_least_float32, rope_cos_sin
from attnx.registry import Depth, PositiveInt, Size, register


class RetentionState(NamedTuple):
    """A decaying sum over earlier positions, and how many there were."""

    products: Tensor  # (b, h, k, v) of keys and values
    position: Tensor  # (b,) of the next one


@register("mixer", "retention")
class Retention(nn.Module):
    """A sum over earlier positions that decays at a fixed rate, another in each head.

    Formula: ``S_t = g_h S_{t-1} + k_t v_t^T, o_t = S_t^T q_t / sqrt(k), g_h = 1 - 2^(-5 - h), h = 0 ... heads - 1``
    Source: Sun et al. 2023, equations 5 to 8, https://arxiv.org/abs/2307.08621

    Queries and keys are rotated by their positions. Values are ``value_ratio`` times as wide as keys. Each head is
    normalized, and a swish gate multiplies it. In training it computes ``chunk`` positions at a time.

    >>> mixer = Retention(hidden_size=8, heads=2)
    >>> outputs, state = mixer(torch.ones(3, 5, 8))
    >>> outputs.shape, state.products.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 2, 4, 8]))
    """

    head_width_multiple = 2

    def __init__(
        self, hidden_size: Size, heads: Depth = 4, value_ratio: PositiveInt = 2, chunk: PositiveInt = 64
    ) -> None:
        super().__init__()
        self.heads, self.chunk, self.width = heads, chunk, head_width(heads, hidden_size, self.head_width_multiple)
        values_size = value_ratio * hidden_size
        self.values_width = values_size // heads
        self.state_size = heads * self.width * self.values_width + 1
        self.query = nn.Linear(hidden_size, hidden_size, bias=False)
        self.keys = nn.Linear(hidden_size, hidden_size, bias=False)
        self.values = nn.Linear(hidden_size, values_size, bias=False)
        self.norm = HeadNorm(hidden_size, heads, self.values_width)
        self.out = nn.Linear(values_size, hidden_size, bias=False)

    def init_state(self, rows: int, like: Tensor) -> RetentionState:
        """Nothing is summed yet."""
        dtype = at_least_float32(like.dtype)
        return RetentionState(
            like.new_zeros(rows, self.heads, self.width, self.values_width, dtype=dtype),
            like.new_zeros(rows, dtype=dtype),
        )

    def forward(
        self, states: Tensor, mask: Tensor | None = None, state: RetentionState | None = None
    ) -> tuple[Tensor, RetentionState]:
        """(b, t, hidden_size) and (b, t) bool -> (b, t, hidden_size) and the state after them."""
        state = self.init_state(states.shape[0], states) if state is None else state
        states = zero_padding(states, mask)
        queries, keys, values = (
            split_heads(project(states), self.heads) for project in (self.query, self.keys, self.values)
        )
        steps, dtype = states.shape[1], state.products.dtype
        positions = state.position[:, None] + torch.arange(steps, device=states.device)
        rotation = rope_cos_sin(positions, self.width)[:, :, None].to(dtype)
        queries, keys = (apply_rope(part.to(dtype), rotation) for part in (queries, keys))
        is_real = torch.ones_like(states[..., 0], dtype=dtype) if mask is None else mask.to(dtype)
        heads = torch.arange(self.heads, device=states.device, dtype=dtype)
        log_decays = is_real[:, None] * torch.log1p(-(2.0 ** (-5 - heads)))[:, None]  # (b, h, t), 0 at padding
        context, products = self.recur(queries * self.width**-0.5, keys, values, log_decays, state.products)
        outputs: Tensor = self.out(self.norm(context, states))
        return outputs, RetentionState(products, state.position + is_real.sum(1))

    def recur(
        self, queries: Tensor, keys: Tensor, values: Tensor, log_decays: Tensor, products: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Queries, keys (b, h, t, k), values (b, h, t, v), log decays (b, h, t) -> (b, h, t, v) and the sum after."""
        return run_chunks(_run_chunk, (queries, keys, values, log_decays), products, self.chunk)


def _run_chunk(
    products: Tensor, queries: Tensor, keys: Tensor, values: Tensor, log_decays: Tensor
) -> tuple[Tensor, Tensor]:
    """Queries and keys (b, h, c, k), values (b, h, c, v), log decays (b, h, c) -> (b, h, c, v) and the sum after."""
    decays = chunk_decays(log_decays)
    context = decays.since_start[..., None] * (queries @ products) + (queries @ keys.mT * decays.between) @ values
    return context, decays.total[..., None, None] * products + (decays.until_end[..., None] * keys).mT @ values
