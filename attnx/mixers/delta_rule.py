"""The delta rule: a state that forgets what it holds of a key as it takes up the key's new value."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnx.mixers.chunks import chunk_decays, head_width, run_chunks, split_heads, zero_padding
from attnx.mixers.layers import ShortConvolution
from attnx.ops import at_least_float32

SMALLEST_SQUARE = 1e-6  # that is added to the squares of a vector before it is scaled to length 1


class DeltaState(NamedTuple):
    """What earlier positions wrote, and the last inputs of the convolution."""

    products: Tensor  # (b, h, k, v) of keys and values
    inputs: Tensor  # (b, convolution - 1, 2 hidden_size + values_size)


class DeltaRule(nn.Module):
    """The delta rule over positions, which make its queries, keys, values and rates.

    Formula: as :func:`run_delta_chunk`, ``q_t, k_t and v_t = swish(convolution(W x_t)), q_t and k_t scaled to length 1,
        q_t divided by sqrt(k); b_t = r sigmoid(u x_t)``
    Source: Yang et al. 2024, section 3, https://arxiv.org/abs/2406.06484

    Args:
        hidden_size: width of the positions, and of all heads' keys together.
        heads: how many.
        values_size: width of all heads' values together.
        convolution: over how many positions.
        negative_eigenvalues: whether r is 2, and not 1.
        chunk: how many positions are computed at a time.
    """

    def __init__(
        self,
        hidden_size: int,
        heads: int,
        values_size: int,
        convolution: int,
        negative_eigenvalues: bool,
        chunk: int,
    ) -> None:
        super().__init__()
        self.heads, self.width, self.chunk = heads, head_width(heads, hidden_size), chunk
        self.values_width = values_size // heads
        self.largest_rate = 2.0 if negative_eigenvalues else 1.0
        self.sizes = [hidden_size, hidden_size, values_size]
        self.project = nn.Linear(hidden_size, sum(self.sizes), bias=False)  # to queries, keys and values
        self.convolution = ShortConvolution(sum(self.sizes), convolution)
        self.rates = nn.Linear(hidden_size, heads, bias=False)
        self.state_size = heads * self.width * self.values_width + self.convolution.state_size

    def init_state(self, rows: int, like: Tensor) -> DeltaState:
        """Nothing is written yet."""
        shape = rows, self.heads, self.width, self.values_width
        products = like.new_zeros(shape, dtype=at_least_float32(like.dtype))
        return DeltaState(products, self.convolution.init_state(rows, like))

    def forward(
        self, states: Tensor, mask: Tensor | None, state: DeltaState, log_decays: Tensor | None = None
    ) -> tuple[Tensor, DeltaState]:
        """(b, t, hidden_size), zeros at padding, and log decays (b, h, t) or none -> (b, h, t, v) and the state."""
        convolved, last_inputs = self.convolution(self.project(states), mask, state.inputs)
        queries, keys, values = (
            split_heads(part, self.heads) for part in torch.split(F.silu(convolved), self.sizes, -1)
        )
        rates = self.largest_rate * zero_padding(torch.sigmoid(self.rates(states)), mask).mT  # (b, h, t), 0 at padding
        queries, keys = unit_length(queries) * self.width**-0.5, unit_length(keys)
        log_decays = torch.zeros_like(rates) if log_decays is None else log_decays
        context, products = self.recur(queries, keys, values, rates, log_decays, state.products)
        return context, DeltaState(products, last_inputs)

    def recur(
        self, queries: Tensor, keys: Tensor, values: Tensor, rates: Tensor, log_decays: Tensor, products: Tensor
    ) -> tuple[Tensor, Tensor]:
        """As :func:`run_delta_chunk`: all positions (b, h, t, ...) and the state before -> (b, h, t, v) and after."""
        return run_chunks(run_delta_chunk, (queries, keys, values, rates, log_decays), products, self.chunk)


def run_delta_chunk(
    products: Tensor, queries: Tensor, keys: Tensor, values: Tensor, rates: Tensor, log_decays: Tensor
) -> tuple[Tensor, Tensor]:
    """Run the delta rule over a chunk.

    Formula: ``S' = a_t S_{t-1}, S_t = S' + k_t n_t^T, n_t = b_t (v_t - S'^T k_t), o_t = S_t^T q_t``
    Source: Yang et al. 2025, section 3.3, https://arxiv.org/abs/2412.06464; the n of a chunk solve one
        triangular system

    Args:
        products: (b, h, k, v), the state before the chunk.
        queries: (b, h, c, k).
        keys: (b, h, c, k), of length 1.
        values: (b, h, c, v).
        rates: (b, h, c), each b_t.
        log_decays: (b, h, c), the logarithm of each a_t.

    Returns:
        (b, h, c, v), and the state after the chunk.
    """
    decays, rates = chunk_decays(log_decays), rates[..., None]
    since_start = decays.since_start[..., None]
    news = rates * (values - since_start * (keys @ products))
    if keys.shape[-2] > 1:  # a position's news depend on those of earlier ones
        overlaps = (rates * (keys @ keys.mT) * decays.between).tril(-1)  # (b, h, c, c)
        # The diagonal, which is taken to be 1, is not read.
        news = torch.linalg.solve_triangular(overlaps, news, upper=False, unitriangular=True)
    context = since_start * (queries @ products) + (queries @ keys.mT * decays.between) @ news
    kept_keys = decays.until_end[..., None] * keys
    return context, decays.total[..., None, None] * products + kept_keys.mT @ news


def unit_length(vectors: Tensor) -> Tensor:
    """Vectors (..., k) scaled to length 1, in float32 or wider."""
    wide = vectors.to(at_least_float32(vectors.dtype))
    return wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + SMALLEST_SQUARE)
