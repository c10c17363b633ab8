"""The mixer ``gated_delta``."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.mixers.chunks import head_width, run_chunks, split_heads, zero_padding
from attnx.mixers.delta_rule import run_delta_chunk, unit_length
from attnx.mixers.head_norm import HeadNorm
from attnx.mixers.short_convolution import ShortConvolution
from attnx.ops import at_least_float32
from attnx.registry import Depth, PositiveInt, Size, register

LARGEST_SCALE = 16.0  # of the decays, as they start
FIRST_TIMES = (1e-3, 0.1)  # between which softplus(c) starts, uniform in its logarithm


class GatedDeltaState(NamedTuple):
    """What earlier positions wrote, and the last inputs of the convolution."""

    products: Tensor  # (b, h, k, v) of keys and values
    inputs: Tensor  # (b, convolution - 1, (2 + value_ratio) hidden_size)


@register("mixer", "gated_delta")
class GatedDelta(nn.Module):
    """The delta rule on a state that decays as each position decides.

    Formula: ``S' = e^(a_t) S_{t-1}, S_t = S' + k_t (b_t (v_t - S'^T k_t))^T, o_t = S_t^T q_t / sqrt(k),
        a_t = -e^A softplus(w x_t + c), b_t = sigmoid(u x_t)``
    Source: Yang et al. 2025, equation 10, https://arxiv.org/abs/2412.06464

    As ``delta``, with a swish gate after the normalization, and values ``value_ratio`` times as wide as keys. Each head
    has an A and a c of its own.

    >>> mixer = GatedDelta(hidden_size=8, heads=2)
    >>> outputs, state = mixer(torch.ones(3, 5, 8))
    >>> outputs.shape, state.products.shape, state.inputs.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 2, 4, 8]), torch.Size([3, 3, 32]))
    """

    def __init__(
        self,
        hidden_size: Size,
        heads: Depth = 4,
        value_ratio: PositiveInt = 2,
        convolution: PositiveInt = 4,
        negative_eigenvalues: bool = False,
        chunk: PositiveInt = 64,
    ) -> None:
        super().__init__()
        self.heads, self.width, self.chunk = heads, head_width(heads, hidden_size), chunk
        self.largest_rate = 2.0 if negative_eigenvalues else 1.0
        self.values_width, values_size = value_ratio * self.width, value_ratio * hidden_size
        self.sizes = [hidden_size, hidden_size, values_size]
        self.project = nn.Linear(hidden_size, sum(self.sizes), bias=False)  # to queries, keys and values
        self.convolution = ShortConvolution(sum(self.sizes), convolution)
        self.rates = nn.Linear(hidden_size, heads, bias=False)
        self.times = nn.Linear(hidden_size, heads, bias=False)
        self.log_scale = nn.Parameter(torch.empty(heads).uniform_(0, LARGEST_SCALE).clamp(min=1e-4).log())
        first_times = torch.empty(heads).uniform_(*map(math.log, FIRST_TIMES)).exp()
        self.time_bias = nn.Parameter(first_times.expm1().log())  # whose softplus they are
        self.norm = HeadNorm(hidden_size, heads, self.values_width)
        self.out = nn.Linear(values_size, hidden_size, bias=False)
        self.state_size = heads * self.width * self.values_width + self.convolution.state_size

    def init_state(self, rows: int, like: Tensor) -> GatedDeltaState:
        """Nothing is written yet."""
        shape = rows, self.heads, self.width, self.values_width
        products = like.new_zeros(shape, dtype=at_least_float32(like.dtype))
        return GatedDeltaState(products, self.convolution.init_state(rows, like))

    def forward(
        self, states: Tensor, mask: Tensor | None = None, state: GatedDeltaState | None = None
    ) -> tuple[Tensor, GatedDeltaState]:
        """(b, t, hidden_size) and (b, t) bool -> (b, t, hidden_size) and the state after them."""
        state = self.init_state(states.shape[0], states) if state is None else state
        states = zero_padding(states, mask)
        convolved, last_inputs = self.convolution(self.project(states), mask, state.inputs)
        queries, keys, values = (
            split_heads(part, self.heads) for part in torch.split(F.silu(convolved), self.sizes, -1)
        )
        rates = self.largest_rate * zero_padding(torch.sigmoid(self.rates(states)), mask).mT  # (b, h, t), 0 at padding
        queries, keys = unit_length(queries) * self.width**-0.5, unit_length(keys)
        dtype = state.products.dtype
        times = F.softplus(self.times(states).to(dtype) + self.time_bias.to(dtype))
        log_decays = zero_padding(-self.log_scale.to(dtype).exp() * times, mask).mT
        context, products = run_chunks(
            run_delta_chunk, (queries, keys, values, rates, log_decays), state.products, self.chunk
        )
        outputs: Tensor = self.out(self.norm(context, states))
        return outputs, GatedDeltaState(products, last_inputs)
