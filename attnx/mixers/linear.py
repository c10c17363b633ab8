"""The mixer ``linear``."""

from __future__ import annotations

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from attnx.mixers.chunks import head_width, join_heads, run_chunks, split_heads, zero_padding
from attnx.ops import at_least_float32
from attnx.registry import Depth, PositiveInt, Size, register

SMALLEST_TOTAL = 1e-10  # of the similarities that a query's are divided by


class LinearState(NamedTuple):
    """Sums over earlier positions."""

    products: Tensor  # (b, h, k, v) of keys and values
    keys: Tensor  # (b, h, k)


@register("mixer", "linear")
class Linear(nn.Module):
    """Attention whose similarity is an inner product of positive features, so that a sum replaces the memory.

    Formula: ``o_t = S_t^T f(q_t) / (f(q_t) . z_t), S_t = S_{t-1} + f(k_t) v_t^T, z_t = z_{t-1} + f(k_t),
        f = elu + 1``
    Source: Katharopoulos et al. 2020, equations 16 to 20, https://arxiv.org/abs/2006.16236

    It is causal attention with the score ``log(f(q) . f(k))``. In training it computes ``chunk`` positions at a time.

    >>> import torch
    >>> mixer = Linear(hidden_size=8, heads=2)
    >>> outputs, state = mixer(torch.ones(3, 5, 8))
    >>> outputs.shape, state.products.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 2, 4, 4]))
    """

    def __init__(self, hidden_size: Size, heads: Depth = 4, chunk: PositiveInt = 64) -> None:
        super().__init__()
        self.heads, self.width, self.chunk = heads, head_width(heads, hidden_size), chunk
        self.state_size = heads * self.width * (self.width + 1)
        self.query = nn.Linear(hidden_size, hidden_size, bias=False)
        self.keys = nn.Linear(hidden_size, hidden_size, bias=False)
        self.values = nn.Linear(hidden_size, hidden_size, bias=False)
        self.out = nn.Linear(hidden_size, hidden_size, bias=False)

    def init_state(self, rows: int, like: Tensor) -> LinearState:
        """Nothing is summed yet."""
        dtype, width = at_least_float32(like.dtype), self.width
        return LinearState(
            like.new_zeros(rows, self.heads, width, width, dtype=dtype),
            like.new_zeros(rows, self.heads, width, dtype=dtype),
        )

    def forward(
        self, states: Tensor, mask: Tensor | None = None, state: LinearState | None = None
    ) -> tuple[Tensor, LinearState]:
        """(b, t, hidden_size) and (b, t) bool -> (b, t, hidden_size) and the state after them."""
        state = self.init_state(states.shape[0], states) if state is None else state
        states = zero_padding(states, mask)
        queries, keys = F.elu(self.query(states)) + 1, zero_padding(F.elu(self.keys(states)) + 1, mask)
        queries, keys, values = (split_heads(part, self.heads) for part in (queries, keys, self.values(states)))
        context, after = self.recur(queries, keys, values, state)
        outputs: Tensor = self.out(join_heads(context).to(states.dtype))
        return outputs, after

    def recur(self, queries: Tensor, keys: Tensor, values: Tensor, state: LinearState) -> tuple[Tensor, LinearState]:
        """Queries and keys (b, h, t, k), values (b, h, t, v) -> (b, h, t, v) and the state after them."""
        return run_chunks(_run_chunk, (queries, keys, values), state, self.chunk)


def _run_chunk(state: LinearState, queries: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, LinearState]:
    """Queries and keys (b, h, c, k), values (b, h, c, v) -> (b, h, c, v) and the state after them."""
    similarities = (queries @ keys.mT).tril()  # (b, h, c, c) of positions in the chunk
    sums = queries @ state.products + similarities @ values
    totals = (queries @ state.keys[..., None])[..., 0] + similarities.sum(-1)  # (b, h, c)
    after = LinearState(state.products + keys.mT @ values, state.keys + keys.sum(-2))
    return sums / (totals + SMALLEST_TOTAL)[..., None], after
