"""The mixer ``delta``."""

from __future__ import annotations

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


class DeltaState(NamedTuple):
    """What earlier positions wrote, and the last inputs of the convolution."""

    products: Tensor  # (b, h, k, v) of keys and values
    inputs: Tensor  # (b, convolution - 1, 3 hidden_size)


@register("mixer", "delta")
class Delta(nn.Module):
    """A state that forgets what it holds of a key as it takes up the key's new value.

    Formula: ``S_t = S_{t-1} + k_t (b_t (v_t - S_{t-1}^T k_t))^T, o_t = S_t^T q_t / sqrt(k), b_t = sigmoid(w x_t)``
    Source: Yang et al. 2024, section 3, https://arxiv.org/abs/2406.06484; eigenvalues, Grazzi et al. 2025,
        https://arxiv.org/abs/2411.12537

    Queries, keys and values pass a causal ``convolution`` over so many positions (1: a factor by channel) and a swish;
    queries and keys are scaled to length 1. With ``negative_eigenvalues`` b_t is twice as large: a step may turn what
    the state holds of a key around, and not only erase it, which is what counting modulo 2 needs. In training it
    computes ``chunk`` positions at a time.

    >>> mixer = Delta(hidden_size=8, heads=2)
    >>> outputs, state = mixer(torch.ones(3, 5, 8))
    >>> outputs.shape, state.products.shape, state.inputs.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 2, 4, 4]), torch.Size([3, 3, 24]))
    """

    def __init__(
        self,
        hidden_size: Size,
        heads: Depth = 4,
        convolution: PositiveInt = 4,
        negative_eigenvalues: bool = False,
        chunk: PositiveInt = 64,
    ) -> None:
        super().__init__()
        self.heads, self.width, self.chunk = heads, head_width(heads, hidden_size), chunk
        self.largest_rate = 2.0 if negative_eigenvalues else 1.0
        self.project = nn.Linear(hidden_size, 3 * hidden_size, bias=False)  # to queries, keys and values
        self.convolution = ShortConvolution(3 * hidden_size, convolution)
        self.rates = nn.Linear(hidden_size, heads, bias=False)
        self.norm = HeadNorm(hidden_size, heads, self.width, is_gated=False)
        self.out = nn.Linear(hidden_size, hidden_size, bias=False)
        self.state_size = heads * self.width**2 + self.convolution.state_size

    def init_state(self, rows: int, like: Tensor) -> DeltaState:
        """Nothing is written yet."""
        shape = rows, self.heads, self.width, self.width
        products = like.new_zeros(shape, dtype=at_least_float32(like.dtype))
        return DeltaState(products, self.convolution.init_state(rows, like))

    def forward(
        self, states: Tensor, mask: Tensor | None = None, state: DeltaState | None = None
    ) -> tuple[Tensor, DeltaState]:
        """(b, t, hidden_size) and (b, t) bool -> (b, t, hidden_size) and the state after them."""
        state = self.init_state(states.shape[0], states) if state is None else state
        states = zero_padding(states, mask)
        convolved, last_inputs = self.convolution(self.project(states), mask, state.inputs)
        queries, keys, values = (split_heads(part, self.heads) for part in F.silu(convolved).chunk(3, -1))
        rates = self.largest_rate * zero_padding(torch.sigmoid(self.rates(states)), mask).mT  # (b, h, t), 0 at padding
        queries, keys = unit_length(queries) * self.width**-0.5, unit_length(keys)
        log_decays = torch.zeros_like(rates)
        context, products = run_chunks(
            run_delta_chunk, (queries, keys, values, rates, log_decays), state.products, self.chunk
        )
        outputs: Tensor = self.out(self.norm(context, states))
        return outputs, DeltaState(products, last_inputs)
